"""Over a real socket: what only the server library and the kernel decide."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from agent_builder.gateway.connection import GatewayConnection
from agent_builder.protocol.events import AssistantDelta, RunIdentity, RunStage
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, new_id
from agent_builder.protocol.limits import BODY_BYTES, SSE_BLOCKED_S
from tests.gateway.events import live_run, numbered
from tests.gateway.gateway_app import AGENT, OpenGateway, open_gateway


@asynccontextmanager
async def served(gateway: OpenGateway) -> AsyncIterator[int]:
    """The port of a real server."""
    async with running(gateway) as (port, _):
        yield port


@asynccontextmanager
async def running(gateway: OpenGateway) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(gateway.app, http=GatewayConnection, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0)
    yield listener.getsockname()[1], server
    server.should_exit = True
    await serving


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[OpenGateway]:
    async with open_gateway(tmp_path) as opened:
        yield opened


def head(gateway: OpenGateway, method: str, path: str, *more: str, host: str = "127.0.0.1") -> bytes:
    ((name, value),) = gateway.client.cookies.items()
    lines = (
        f"{method} {path} HTTP/1.1", f"Host: {host}", f"Origin: http://{host}", f"Cookie: {name}={value}", f"X-CSRF-Token: {gateway.csrf}",
        "Content-Type: application/json", *more, "", "",
    )
    return "\r\n".join(lines).encode()


async def status_of(port: int, request: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def test_small_answers_leave_without_waiting_for_the_client(gateway: OpenGateway) -> None:
    async with running(gateway) as (port, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head(gateway, "GET", "/api/session"))
        await reader.readline()
        (connection,) = server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()


async def test_a_body_in_chunks_is_refused_before_it_is_whole(gateway: OpenGateway) -> None:
    async with served(gateway) as port:
        chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
        request = head(gateway, "POST", "/api/agents", "Transfer-Encoding: chunked") + chunk * (BODY_BYTES // 0x1000 + 1)
        assert await status_of(port, request) == 413


async def test_a_body_is_refused_by_its_announced_length_alone(gateway: OpenGateway) -> None:
    async with served(gateway) as port:
        assert await status_of(port, head(gateway, "POST", "/api/agents", f"Content-Length: {BODY_BYTES + 1}")) == 413


async def test_hosts_are_counted_and_an_absolute_target_does_not_replace_the_host(gateway: OpenGateway) -> None:
    async with served(gateway) as port:
        assert await status_of(port, head(gateway, "GET", "/api/agents")) == 200
        assert await status_of(port, head(gateway, "GET", "/api/agents", "Host: 127.0.0.1")) in (400, 403)
        assert await status_of(port, b"GET /api/session HTTP/1.1\r\n\r\n") == 403
        assert await status_of(port, b"GET /api/session HTTP/1.0\r\n\r\n") == 403
        assert await status_of(port, head(gateway, "GET", "http://127.0.0.1/api/agents", host="evil.example")) == 403


async def test_a_client_that_never_reads_is_dropped_and_the_next_one_is_served(gateway: OpenGateway) -> None:
    database = (await gateway.services.registry.runtime(SYSTEM_AGENT_ID)).database
    run = RunIdentity(agent_id=SYSTEM_AGENT_ID, conversation_id=new_id(), turn_id=new_id(), run_id=new_id())
    record = live_run(gateway.live, run, RunStage(stage="answering"))
    async with served(gateway) as port:
        lazy = socket.socket()
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        await asyncio.get_running_loop().sock_connect(lazy, ("127.0.0.1", port))
        await asyncio.get_running_loop().sock_sendall(lazy, head(gateway, "GET", f"{AGENT}/runs/{run.run_id}/events"))
        while record.subscribers() == 0:
            await asyncio.sleep(0)
        for seq in range(2, 200):
            record.append(numbered(run, AssistantDelta(text="x" * 65536), first=seq))
            await asyncio.sleep(0)
            await database.read(lambda conn: None)  # lets the socket take what it will
        assert record.subscribers() == 1
        assert await status_of(port, head(gateway, "GET", "/api/agents")) == 200
        gateway.clock.advance(SSE_BLOCKED_S + 1)
        while record.subscribers() == 1:
            await asyncio.sleep(0)
        assert await status_of(port, head(gateway, "GET", "/api/agents")) == 200
        lazy.close()
