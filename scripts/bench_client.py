"""The measuring client: sockets that note when each piece arrives and are read only afterwards, so that reading costs no time."""

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Pieces = list[tuple[float, bytes]]
WAIT_S = 60
END = b"0\r\n\r\n"
_TAIL = 256


class Wire(asyncio.Protocol):
    """One connection. `pieces`: what has arrived since the last `send`, each with its time (time.monotonic)."""

    def __init__(self) -> None:
        self.pieces: Pieces = []
        self._tail = b""
        self._needle: bytes | None = None
        self._found: asyncio.Future[None] | None = None
        self._gone = False

    @classmethod
    async def open(cls, port: int) -> "Wire":
        _, wire = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.monotonic(), data))
        seen = self._tail + data
        self._tail = seen[-_TAIL:]
        if self._needle is not None and self._needle in seen:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._wake()

    def send(self, data: bytes) -> float:
        """The time at which the request leaves."""
        self.pieces, self._tail = [], b""
        sent = time.monotonic()
        self.transport.write(data)
        return sent

    async def until(self, needle: bytes, limit_s: float = WAIT_S) -> None:
        """Returns when the needle has arrived, or the connection has ended."""
        if self._gone or any(needle in data for _, data in self.pieces) or needle in self._tail:
            return
        self._needle, self._found = needle, asyncio.get_running_loop().create_future()
        await asyncio.wait_for(self._found, limit_s)

    async def whole_stream(self, limit_s: float = WAIT_S) -> None:
        """Returns when a chunked answer is complete."""
        await self.until(END, limit_s)

    async def whole(self) -> tuple[int, bytes, float]:
        """Status, body and arrival of an answer with a Content-Length."""
        await self.until(b"\r\n\r\n")
        while True:
            head, _, body = b"".join(data for _, data in self.pieces).partition(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            if self._gone or len(body) >= (int(length[1]) if length else 0):
                return int(head[9:12] or 0), body, self.pieces[-1][0]
            self._needle, self._found = b"", asyncio.get_running_loop().create_future()
            await asyncio.wait_for(self._found, WAIT_S)

    def close(self) -> None:
        self.transport.abort()

    def _wake(self) -> None:
        if self._found is not None and not self._found.done():
            self._found.set_result(None)
        self._needle = None


def request(method: str, path: str, body: object = None, headers: str = "", port: int = 0) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json\r\n" if data else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}{kind}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def unchunked(pieces: Pieces) -> Pieces:
    """The body of a chunked answer; each part with the time of its last byte."""
    parts: Pieces = []
    buffer, in_body = b"", False
    for at, data in pieces:
        buffer += data
        if not in_body and b"\r\n\r\n" in buffer:
            buffer, in_body = buffer.partition(b"\r\n\r\n")[2], True
        while in_body:
            size, mark, rest = buffer.partition(b"\r\n")
            if not mark or len(rest) < int(size, 16) + 2:
                break
            parts.append((at, rest[: int(size, 16)]))
            buffer = rest[int(size, 16) + 2 :]
    return parts


def blocks(pieces: Pieces, end: bytes) -> Pieces:
    """Events or lines of a body, without their end mark."""
    found: Pieces = []
    buffer = b""
    for at, data in unchunked(pieces):
        *whole, buffer = (buffer + data).split(end)
        found += [(at, block) for block in whole]
    return found


def events(pieces: Pieces) -> list[tuple[float, Json]]:
    """The events of a stream, each with its arrival."""
    made = []
    for at, block in blocks(pieces, b"\n\n"):
        data = next((line[6:] for line in block.split(b"\n") if line.startswith(b"data: ")), None)
        if data is not None:
            made.append((at, json.loads(data)))
    return made


@dataclass
class Seen:
    """One answer as a client saw it, by the Gateway or by the provider itself; times by time.monotonic. `texts`: visible
    pieces; `exchanges`: what the provider noted."""

    sent: float
    texts: list[tuple[float, str]]
    ended: float
    accepted: float = 0.0
    exchanges: list[Json] = field(default_factory=list)
    ending: str = ""

    @property
    def first_s(self) -> float:
        return self.texts[0][0] - self.sent

    @property
    def whole_s(self) -> float:
        return self.ended - self.sent

    def lags(self) -> list[float]:
        """Seconds from the write of each frame to its arrival."""
        written = self.exchanges[-1]["writes"]
        return [at - written[int(number)] for at, text in self.texts for number in re.findall(r"w(\d{4})", text)]


class RawClient:
    """Asks the provider itself, as an ordinary client of a local model would."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def run(self, spec: Json) -> Seen:
        wire = None
        body = {"model": "m", "messages": [{"role": "user", "content": message(spec)}], "options": {}}
        data = request("POST", "/api/chat", body, port=self.port)
        sent = time.monotonic()  # a fresh connection is part of it, as in the Gateway's own calls
        wire = await Wire.open(self.port)
        wire.send(data)
        await wire.until(END)
        lines = [(at, json.loads(line)) for at, line in blocks(wire.pieces, b"\n")]
        wire.close()
        texts = [(at, line["message"]["content"]) for at, line in lines if line["message"]["content"]]
        return Seen(sent, texts, lines[-1][0], exchanges=await exchanges(self.port, spec["id"]))

    async def cancel(self, spec: Json) -> float:
        """Seconds from closing the connection to the provider's notice of it."""
        wire = await Wire.open(self.port)
        wire.send(request("POST", "/api/chat", {"messages": [{"role": "user", "content": message(spec)}], "options": {}}, port=self.port))
        await wire.until(b"w0000")
        closed = time.monotonic()
        wire.close()
        return await noticed(self.port, spec["id"]) - closed


def message(spec: Json) -> str:
    return f"bench:{json.dumps(spec)}"


async def exchanges(port: int, run: str) -> list[Json]:
    wire = await Wire.open(port)
    wire.send(request("GET", f"/bench/{run}", port=port))
    _, body, _ = await wire.whole()
    wire.close()
    return list(json.loads(body)["exchanges"])


async def noticed(port: int, run: str) -> float:
    """When the provider saw that its client had gone."""
    async with asyncio.timeout(WAIT_S):
        while True:
            closed = (await exchanges(port, run))[-1]["closed"]
            if closed is not None:
                return float(closed)
            await asyncio.sleep(0.01)
