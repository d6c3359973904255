"""A client of an event stream that is cut wherever the test likes, as a proxy or a sleeping laptop would cut it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.gateway import TERMINALS, Gateway, Json, sse


@dataclass
class View:
    """What one client has seen of one Run. `events` in the order of their arrival, across all connections."""

    run_id: str
    events: list[Json] = field(default_factory=list)
    controls: list[Json] = field(default_factory=list)
    connections: int = 0

    @property
    def position(self) -> int:
        return int(self.events[-1]["seq"]) if self.events else 0

    @property
    def ended(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in TERMINALS

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]

    @property
    def text(self) -> str:
        return "".join(event["payload"]["text"] for event in self.events if event["type"] == "assistant.block.delta")

    @property
    def durable(self) -> list[Json]:
        return [event for event in self.events if event["durability"] == "durable"]

    def take(self, item: Json) -> None:
        (self.events if "seq" in item else self.controls).append(item)


async def follow(gateway: Gateway, view: View, at_most: int | None = None) -> None:
    """One connection: resumes where the view ends, and is cut after `at_most` events, at its end otherwise."""
    headers = {"Last-Event-ID": str(view.position)} if view.connections else {}
    view.connections += 1
    if at_most == 0:
        return
    async with gateway.client.stream("GET", f"{gateway.agent}/runs/{view.run_id}/events", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        before = len(view.events)
        async for item in sse(response):
            view.take(item)
            if at_most is not None and len(view.events) - before >= at_most:
                return


async def journal(gateway: Gateway, run_id: str) -> list[Json]:
    """All durable events of a Run, page by page."""
    found: list[Json] = []
    after = 0
    while True:
        page = await gateway.ok("GET", f"{gateway.agent}/runs/{run_id}/replay?after_seq={after}&limit=7")
        found += page["items"]
        if "next_after_seq" not in page:
            return found
        after = page["next_after_seq"]


@asynccontextmanager
async def never_reading(gateway: Gateway, path: str) -> AsyncIterator[socket.socket]:
    """A connection that has asked for `path` and does not read the answer; its buffers are as small as may be."""
    lazy = socket.socket()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.setblocking(False)
    loop = asyncio.get_running_loop()
    ((name, value),) = gateway.client.cookies.items()
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nCookie: {name}={value}\r\n\r\n"
    with lazy:
        await loop.sock_connect(lazy, ("127.0.0.1", gateway.port))
        await loop.sock_sendall(lazy, head.encode())
        yield lazy


async def rest_of(lazy: socket.socket) -> bytes:
    """Everything that still comes, until the server ends or drops the connection."""
    received = b""
    loop = asyncio.get_running_loop()
    try:
        while data := await loop.sock_recv(lazy, 65536):
            received += data
    except ConnectionResetError:
        pass
    return received
