"""Server-sent events: framing, and the answer that carries one or several Runs to one client.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html. The data of a frame is one line of JSON, in which line
feeds and carriage returns are escaped; the standard knows no other line ends.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from starlette.types import Receive, Scope, Send

from agent_builder.gateway.errors import abort_connection
from agent_builder.protocol.events import Control, Event
from agent_builder.protocol.limits import SSE_BLOCKED_S, SSE_HEARTBEAT_S
from agent_builder.protocol.ports import Clock

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
]
HEARTBEAT = b":\n\n"


class Source(Protocol):
    """Events of one Run. `batch` waits for what is ready next; an empty batch is the end."""

    @property
    def run_id(self) -> str: ...

    async def batch(self) -> list[Event | Control]: ...

    def close(self) -> None: ...


class Gone:
    """Stands for a Run that does not exist, in a stream of several."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._rest: list[list[Event | Control]] = [[Control(kind="gone", run_id=run_id)]]

    async def batch(self) -> list[Event | Control]:
        return self._rest.pop() if self._rest else []

    def close(self) -> None:
        self._rest.clear()


def frame(item: Event | Control, prefix: str = "") -> str:
    """One frame. Controls have no id, so that they never move the position to which a client returns."""
    if isinstance(item, Control):
        return f"event: control\ndata: {item.to_json()}\n\n"
    return f"id: {prefix}{item.seq}\nevent: {item.type}\ndata: {item.to_json()}\n\n"


def chunk(items: Iterable[Event | Control], prefix: str = "") -> bytes:
    """Everything that is ready, as one piece for the socket."""
    return "".join([frame(item, prefix) for item in items]).encode()


class _ClientGone(Exception):
    """The client closed its connection."""


class _ClientBlocked(Exception):
    """The client has not read for too long."""


class EventStream:
    """The ASGI answer. It owns its sources: each is closed when the stream ends, however it ends.

    `several`: ids carry the Run, and every control names it.
    """

    def __init__(self, sources: Sequence[Source], clock: Clock, *, several: bool = False) -> None:
        self._sources = sources
        self._clock = clock
        self._several = several

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if scope["method"] != "HEAD":
                await self._stream(receive, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except* _ClientGone:
            pass
        except* _ClientBlocked:
            abort_connection(scope)
            await asyncio.sleep(0)  # the transport reports its end in the loop's next turn
        finally:
            for source in self._sources:
                source.close()

    async def _stream(self, receive: Receive, send: Send) -> None:
        """Ends with the last source, or with the client."""
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(self._beat(send)), group.create_task(_until_gone(receive))]
            async with asyncio.TaskGroup() as carriers:
                for source in self._sources:
                    carriers.create_task(self._carry(source, send))
            for task in beside:
                task.cancel()

    async def _carry(self, source: Source, send: Send) -> None:
        prefix = f"{source.run_id}:" if self._several else ""
        while items := await source.batch():
            if self._several:
                items = [_named(item, source.run_id) for item in items]
            await self._deliver(chunk(items, prefix), send)

    async def _beat(self, send: Send) -> None:
        while True:
            await self._clock.sleep(SSE_HEARTBEAT_S)
            await self._deliver(HEARTBEAT, send)

    async def _deliver(self, data: bytes, send: Send) -> None:
        try:
            async with self._clock.timeout(SSE_BLOCKED_S):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            raise _ClientBlocked from None


def _named(item: Event | Control, run_id: str) -> Event | Control:
    if isinstance(item, Control) and item.run_id is None:
        return item.model_copy(update={"run_id": run_id})
    return item


async def _until_gone(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
