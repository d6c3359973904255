"""One HTTP request to a provider on a connection of its own: closing it is seen by the provider at once, and no proxy or
pool can come between. Bytes are parsed by llhttp as they arrive; nothing here knows what they mean.
"""

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

from agent_builder.protocol.limits import (
    HTTP_PORT,
    HTTPS_PORT,
    PROVIDER_HEAD_BYTES,
    PROVIDER_LINGERING,
    PROVIDER_READ_AHEAD_BYTES,
)


class ConnectionBroken(Exception):
    """The connection ended, or spoke no HTTP, before the answer was complete."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider answers. `prefix` is put before every path; it has no slash at its end."""

    host: str
    port: int
    tls: bool
    prefix: str
    authority: str


def parse_endpoint(url: str) -> Endpoint:
    """Raises ValueError with a few words about what is wrong."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("must begin with http:// or https://")
    if not parts.hostname or parts.username is not None or parts.password is not None:
        raise ValueError("must name a host, without user name or password")
    if parts.query or parts.fragment or any(ord(char) <= ord(" ") or ord(char) > ord("~") for char in url):
        raise ValueError("must not have blanks, a query or a fragment")
    prefix = parts.path.rstrip("/")
    if prefix.endswith(("/v1", "/api")):
        raise ValueError("must be the server's base address, without /v1 or /api")
    tls = parts.scheme == "https"
    return Endpoint(parts.hostname, parts.port or (HTTPS_PORT if tls else HTTP_PORT), tls, prefix, parts.netloc)


class HttpExchange(asyncio.Protocol):
    """Created by `Connections.send`. `status` is 0 until the head of the answer has arrived."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._chunks: list[bytes] = []
        self._waiting_bytes = self._head_bytes = 0
        self._broken: Exception | None = None
        self._discarding = self._woken = False
        self._waiter: asyncio.Future[None] | None = None

    async def read(self) -> bytes | None:
        """The body bytes that have arrived; b"" at the end of the answer, None after `wake`. Raises ConnectionBroken."""
        while True:
            if self._chunks:
                return self._take()
            if self.complete:
                return b""
            if self._broken is not None:
                raise ConnectionBroken from self._broken
            if self._woken:
                self._woken = False
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def wake(self) -> None:
        """Lets a waiting `read` return None, so that its caller looks at its clocks again."""
        self._woken = True
        self._notify()

    def close(self) -> None:
        """At once; what has not been read is lost."""
        if self._transport is not None:
            self._transport.abort()

    def leave(self) -> bool:
        """Discards the rest. Returns whether the provider has still to end the answer; it may, undisturbed."""
        self._discarding = True
        self._chunks.clear()
        if self.complete or self._transport is None or self._transport.is_closing():
            self.close()
            return False
        self._transport.resume_reading()
        return True

    def _take(self) -> bytes:
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        if self._waiting_bytes > PROVIDER_READ_AHEAD_BYTES and self._transport is not None:
            self._transport.resume_reading()
        self._waiting_bytes = 0
        return data

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # asyncio.Protocol ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has the methods, not the base class

    def data_received(self, data: bytes) -> None:
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
        if not self.status and self._head_bytes > PROVIDER_HEAD_BYTES:
            self._fail(ValueError("the head of the answer is too long"))
        if self._discarding and (self.complete or self._waiting_bytes > PROVIDER_READ_AHEAD_BYTES):
            self.close()
        elif self._waiting_bytes > PROVIDER_READ_AHEAD_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._notify()

    def connection_lost(self, exc: Exception | None) -> None:
        framed = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        if self.status and not framed and exc is None and self._broken is None:
            self.complete = True
        elif not self.complete and self._broken is None:
            self._broken = exc or ConnectionResetError("closed before the answer was complete")
        self._notify()

    def _fail(self, error: Exception) -> None:
        if not self.complete:
            self._broken = error
        self.close()

    # llhttp ----------------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer; the real one follows
            self.headers.clear()
            return
        self.status = status

    def on_body(self, body: bytes) -> None:
        self._waiting_bytes += len(body)
        if not self._discarding:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        self.complete = bool(self.status)


class Connections:
    """Opens exchanges, and holds the few that are being ended by the provider."""

    def __init__(self) -> None:
        self._lingering: deque[HttpExchange] = deque()
        self._tls: ssl.SSLContext | None = None

    async def send(self, endpoint: Endpoint, method: str, path: str, body: bytes | None, bearer: str | None) -> HttpExchange:
        """Connects and writes the request. Raises OSError. The caller ends the exchange with `release` or `close`."""
        loop = asyncio.get_running_loop()
        tls = self._context() if endpoint.tls else None
        _, exchange = await loop.create_connection(HttpExchange, endpoint.host, endpoint.port, ssl=tls)
        transport = exchange._transport  # noqa: SLF001 -- made by this file, one line above
        assert transport is not None
        transport.write(_request(endpoint, method, path, body, bearer))
        return exchange

    def release(self, exchange: HttpExchange) -> None:
        """After a complete answer: the provider ends the connection, so it never mistakes the end for a cancel."""
        while self._lingering and (self._lingering[0].complete or len(self._lingering) >= PROVIDER_LINGERING):
            self._lingering.popleft().close()
        if exchange.leave():
            self._lingering.append(exchange)

    def close(self) -> None:
        while self._lingering:
            self._lingering.popleft().close()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _request(endpoint: Endpoint, method: str, path: str, body: bytes | None, bearer: str | None) -> bytes:
    lines = [
        f"{method} {endpoint.prefix}{path} HTTP/1.1", f"Host: {endpoint.authority}", "User-Agent: agent-builder",
        "Accept-Encoding: identity", "Connection: close",
    ]
    if bearer is not None:
        lines.append(f"Authorization: Bearer {bearer}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")
