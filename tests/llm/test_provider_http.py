"""One HTTP exchange over a real socket: cut answers, odd heads, and closings that the other side sees."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from agent_builder.llm.provider_http import ConnectionBroken, Connections, Endpoint, HttpExchange, parse_endpoint
from agent_builder.protocol.limits import PROVIDER_HEAD_BYTES, PROVIDER_LINGERING, PROVIDER_READ_AHEAD_BYTES

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A server that reads one request head and then plays."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.heads: list[str] = []
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.play(reader, writer)
            await writer.drain()
            if await reader.read(1 << 16) == b"":
                self.left.set()
        except OSError:
            self.left.set()
        finally:
            writer.close()


@asynccontextmanager
async def exchange(play: Play | bytes, method: str = "GET", body: bytes | None = None) -> AsyncIterator[tuple[HttpExchange, Peer, Connections]]:
    async def write(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(play, bytes)
        writer.write(play)

    peer = Peer(write if isinstance(play, bytes) else play)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = Connections()
    made = await connections.send(parse_endpoint(f"http://127.0.0.1:{port}/base/"), method, "/api/x", body, "key")
    try:
        yield made, peer, connections
    finally:
        made.close()
        connections.close()
        server.close()
        for _ in range(20):
            await asyncio.sleep(0)


async def whole(made: HttpExchange) -> bytes:
    parts = b""
    while part := await made.read():
        parts += part
    return parts


async def test_the_request_names_what_it_needs() -> None:
    async with exchange(b"HTTP/1.1 204 No\r\n\r\n", "POST", b"{}") as (made, peer, _):
        assert await whole(made) == b""
        head = peer.heads[0]
        assert head.startswith("POST /base/api/x HTTP/1.1\r\nHost: 127.0.0.1:")
        for line in ("Connection: close", "Authorization: Bearer key", "Content-Length: 2", "Content-Type: application/json", "Accept-Encoding: identity"):
            assert f"{line}\r\n" in head


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
])
async def test_bodies_however_they_are_framed(answer: bytes) -> None:
    async with exchange(answer) as (made, _, _):
        assert await whole(made) == b"hello"
        assert made.status == 200


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        writer.close()

    async with exchange(play) as (made, _, _):
        assert await whole(made) == b"hello"


@pytest.mark.parametrize("answer", [
    b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhel",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"SSH-2.0-OpenSSH\r\n",
])
async def test_a_cut_or_foreign_answer_is_a_broken_connection(answer: bytes) -> None:
    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with exchange(play) as (made, _, _):
        with pytest.raises(ConnectionBroken):
            await whole(made)


async def test_an_endless_head_is_a_broken_connection() -> None:
    async with exchange(b"HTTP/1.1 200 OK\r\n" + b"X-Pad: y\r\n" * (PROVIDER_HEAD_BYTES // 10 + 10)) as (made, peer, _):
        with pytest.raises(ConnectionBroken):
            await whole(made)
        await peer.left.wait()


async def test_closing_is_seen_by_the_other_side() -> None:
    async with exchange(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel") as (made, peer, _):
        assert await made.read() == b"hel"
        made.close()
        await peer.left.wait()


async def test_a_wake_lets_the_reader_look_at_its_clocks() -> None:
    async with exchange(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n") as (made, _, _):
        reading = asyncio.ensure_future(made.read())
        await asyncio.sleep(0)
        made.wake()
        assert await reading is None


async def test_a_flood_is_paused_until_it_is_read() -> None:
    size = 64 * PROVIDER_READ_AHEAD_BYTES

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(b"x" * size)

    async with exchange(flood) as (made, _, _):
        for _ in range(200):
            await asyncio.sleep(0)
        assert made._waiting_bytes <= PROVIDER_READ_AHEAD_BYTES + (1 << 18)
        assert len(await whole(made)) == size


async def test_a_released_exchange_is_ended_by_the_other_side() -> None:
    gate = asyncio.Event()

    async def slow_end(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        await gate.wait()
        writer.write(b"0\r\n\r\n")

    async with exchange(slow_end) as (made, peer, connections):
        assert await made.read() == b"hi"
        connections.release(made)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not peer.left.is_set()
        gate.set()
        await peer.left.wait()
        assert made.complete


async def test_only_a_few_released_exchanges_are_waited_for() -> None:
    async def never_ends(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")

    async with exchange(never_ends) as (first, peer, connections):
        endpoint = parse_endpoint(f"http://{peer.heads[0].split('Host: ')[1].split(chr(13))[0]}") if await first.read() else None
        assert endpoint is not None
        connections.release(first)
        for _ in range(PROVIDER_LINGERING):
            more = await connections.send(endpoint, "GET", "/", None, None)
            await more.read()
            connections.release(more)
        await peer.left.wait()
        assert len(connections._lingering) == PROVIDER_LINGERING


@pytest.mark.parametrize(("url", "endpoint"), [
    ("http://iollama:11434", Endpoint("iollama", 11434, False, "", "iollama:11434")),
    ("https://models.example/ollama/", Endpoint("models.example", 443, True, "/ollama", "models.example")),
    ("http://[::1]:5", Endpoint("::1", 5, False, "", "[::1]:5")),
])
def test_addresses(url: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(url) == endpoint


@pytest.mark.parametrize("url", ["", "iollama:11434", "ftp://h", "http://", "http://u@h", "http://h/v1", "http://h/api/", "http://h?a", "http://h#a", "http://h/a b", "http://h/\r\nX: y", "http://h:x"])
def test_bad_addresses(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|[Pp]ort"):
        parse_endpoint(url)
