"""What stands between a browser and the Gateway in real networks: connections that break, and proxies that hold answers back."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.gateway import Gateway

_BLOCK = 65536


class Proxy:
    """Moves the bytes of each connection as they come. Subclasses treat answers with events worse."""

    async def serve(self, gateway: Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        listens = asyncio.Event()

        async def ask() -> None:
            while data := await reader.read(_BLOCK):
                if data.startswith(b"GET /api/events?"):
                    listens.set()
                up_writer.write(data)

        asking = asyncio.create_task(ask())
        try:
            while data := await up_reader.read(_BLOCK):
                if listens.is_set():
                    await self.events(data, up_reader, writer)
                    return
                writer.write(data)
                await writer.drain()
        finally:
            asking.cancel()
            writer.close()
            up_writer.transport.abort()

    async def events(self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The answer with events that begins with `data`; the connection ends behind it."""
        raise NotImplementedError


class Cuts(Proxy):
    """Breaks the connection once so many events have passed in all, and at last before a terminal arrives. `made`: how often."""

    def __init__(self, *after: int) -> None:
        self._after = list(after)
        self._passed = self.made = 0
        self._ended = False

    async def events(self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data and not self._cuts(data):
            writer.write(data)
            await writer.drain()
            data = await reader.read(_BLOCK)
        writer.transport.abort()

    def _cuts(self, data: bytes) -> bool:
        self._passed += len(re.findall(rb"(?:^|\n)id: ", data))
        if self._after:
            due = self._passed >= self._after[0]
            self._after = self._after[due:]
        else:
            due = b"run.completed" in data and not self._ended
            self._ended = due or self._ended
        self.made += due
        return due


class Holds(Proxy):
    """Holds an answer back until its end, as nginx does by default, unless a header of the answer forbids it: `X-Accel-Buffering: no`
    (nginx's documentation of proxy_buffering)."""

    async def events(self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held = b""
        while data:
            held += data
            if b"\r\nx-accel-buffering: no\r\n" in held.lower():
                break
            data = await reader.read(_BLOCK)
        writer.write(held)
        while data := await reader.read(_BLOCK):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxied(gateway: Gateway, proxy: Proxy) -> AsyncIterator[int]:
    """The port of a TCP proxy in front of `gateway`."""
    server = await asyncio.start_server(lambda reader, writer: proxy.serve(gateway, reader, writer), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
