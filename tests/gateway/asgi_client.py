"""The other side of an ASGI application in one process: what was sent, and a socket that can stop reading or vanish."""

import asyncio
from collections.abc import MutableMapping
from typing import Any


async def settle() -> None:
    """Lets every task run until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


class AsgiClient:
    """`received` collects body bytes; `block()` makes the next sends wait; `vanish()` closes the connection."""

    def __init__(self, body: list[bytes] | None = None, *, endless: bool = False) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.received = b""
        self.chunks: list[bytes] = []
        self.complete = False
        self.aborted = False
        self.read = 0
        self.changed = asyncio.Condition()
        self._body = list(body or [b""])
        self._endless = endless
        self._gone = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    async def receive(self) -> dict[str, Any]:
        if self._body:
            self.read += 1
            part = self._body.pop(0)
            if self._endless:
                self._body.append(part)
            return {"type": "http.request", "body": part, "more_body": bool(self._body)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self._may_write.wait()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.received += message.get("body", b"")
            if message.get("body"):
                self.chunks.append(message["body"])
            self.complete = not message.get("more_body", False)
        async with self.changed:
            self.changed.notify_all()

    async def until(self, *, chunks: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.chunks) >= chunks)

    def block(self) -> None:
        self._may_write.clear()

    def vanish(self) -> None:
        self._gone.set()

    def abort(self) -> None:
        self.aborted = True

    def scope(self, method: str = "GET", path: str = "/", headers: list[tuple[bytes, bytes]] | None = None) -> dict[str, Any]:
        return {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "scheme": "http", "headers": headers or [], "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 20815),
            "extensions": {"agent_builder.abort": self.abort},
        }
