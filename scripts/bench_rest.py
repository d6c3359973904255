"""Figures of a Gateway at rest: pages, start, memory, size of a request, syncs."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

from bench_client import END, exchanges, message
from bench_gateway import SYSTEM_AGENT, Gateway, Provider, catalog, make_checkout, rss_mib, strace
from bench_report import MS, Row
from bench_streams import spec

from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, new_id
from agent_builder.protocol.limits import CONVERSATIONS_PER_AGENT, DATABASE_BYTES
from agent_builder.protocol.messages import CompletedTurnContext, Usage
from agent_builder.storage.boundaries import Boundary, head_boundary
from agent_builder.storage.conversations import create_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.migrations import AGENT_MIGRATIONS
from agent_builder.storage.turn_rows import NewTurn, TurnEnd
from agent_builder.storage.turns import admit_turn, begin_turn, finish_turn

ANSWER = "An answer of ordinary length, which says what was asked for and a little more. " * 4
START = datetime(2026, 11, 30, tzinfo=UTC)
ACTIVE = 4
PROFILE = "streams = 4\nbudgets = { model_calls = 6, tool_calls = 4, run_s = 120 }\n"


async def fill(root: Path, turns: int) -> str:
    """Fills the default Agent of a stopped Gateway: all the Conversations it may have, one of them with `turns` Turns, whose id is given."""
    database = await Database.open(Checkout(root).state_db(SYSTEM_AGENT_ID), AGENT_MIGRATIONS, max_bytes=DATABASE_BYTES)
    try:
        return await database.run(lambda conn: _fill(conn, turns))
    finally:
        await database.close()


def _fill(conn: Connection, turns: int) -> str:
    for number in range(CONVERSATIONS_PER_AGENT - 1):
        create_conversation(conn, new_id(), f"Conversation {number}", START + timedelta(minutes=number))
    long = create_conversation(conn, new_id(), "The long one", START + timedelta(days=1)).conversation_id
    plain = NewTurn(
        turn_id="", run_id="", operation_id="", conversation_id=long, user_text="", attachments=(), model_id="bench", compact=False,
        client_request_id=None, now=START, title="The long one",
    )
    for number in range(turns):
        _turn(conn, replace(plain, turn_id=new_id(), run_id=new_id(), operation_id=new_id(), user_text=f"Question {number} of many?"))
    return long


def _turn(conn: Connection, new: NewTurn) -> None:
    turn = begin_turn(conn, new)
    head = head_boundary(conn, new.conversation_id)
    admit_turn(conn, turn.turn_id, Boundary(new.conversation_id, turn.turn_id, new_id(), head.digest if head else None, {"model": "bench"}))
    bundle = CompletedTurnContext(turn_id=turn.turn_id, user_text=new.user_text, answer=ANSWER)
    finish_turn(conn, TurnEnd(turn.turn_id, "completed", ANSWER, "stop", None, Usage(input=9, output=9), bundle, START))


async def page_rows(gateway: Gateway, long: str, turns: int, repeats: int) -> list[Row]:
    place = f"/api/agents/{SYSTEM_AGENT}/sessions"
    pages = [(await gateway.ask("GET", f"{place}/{long}"))[1] * MS for _ in range(repeats)]
    lists = [(await gateway.ask("GET", place))[1] * MS for _ in range(repeats)]
    first = [(await gateway.run(spec(), agent=SYSTEM_AGENT, conversation=long)).first_s * MS for _ in range(min(3, repeats))]
    return [
        Row(f"page of a {turns:,}-Turn Conversation", "ms", pages, 8),
        Row("list of 100 Conversations", "ms", lists, 8),
        Row(f"time to the first visible delta in the {turns:,}-Turn Conversation", "ms", first),
    ]


async def start_row(root: Path, provider: Provider, repeats: int) -> Row:
    """Spawn to the first answer of /health over existing data, with a provider that answers at once."""
    seconds = []
    for _ in range(repeats):
        async with Gateway(root, provider.port) as gateway:
            seconds.append(gateway.started_s)
    return Row("warm start to /health, provider answers at once", "s", seconds, 0.8)


async def memory_rows(scratch: Path, gateway: Gateway) -> list[Row]:
    """`gateway` has just started. The tokenizer is of the size of a real one; a first start builds it, later ones read it."""
    idle = rss_mib(gateway.pid)
    async with Provider(vocabulary=True) as provider:
        root = scratch / "with-tokenizer"
        make_checkout(root, catalog(f"http://127.0.0.1:{provider.port}", "bench:1b", PROFILE))
        built, read = [await _counting_rss(root, provider) for _ in range(2)]
    return [
        Row("Gateway idle RSS, bytes counted for tokens", "MiB", [idle], 80),
        Row("Gateway idle RSS, exact tokenizer loaded (151,936 tokens)", "MiB", [read], 160),
        Row("the same after the start that built it", "MiB", [built]),
    ]


async def _counting_rss(root: Path, provider: Provider) -> float:
    async with Gateway(root, provider.port) as gateway:
        models, _ = await gateway.ask("GET", "/api/models")
        if "gguf" not in str(models):
            raise RuntimeError(f"no exact tokenizer: {models}")
        return rss_mib(gateway.pid)


async def run_memory_row(gateway: Gateway) -> Row:
    """All the Runs that may be active, in the middle of their answers; each with its Worker."""
    await gateway.ready()
    before = rss_mib(gateway.pid)
    followers = []
    for _ in range(ACTIVE):
        place = await gateway.new_conversation()
        _, _, run_id, follower = await gateway.begin(gateway.agent, place, message(spec(hold=True)))
        await follower.until(b"w0000")
        followers.append((run_id, follower))
    workers = sum(map(rss_mib, gateway.workers))
    after = rss_mib(gateway.pid)
    for run_id, follower in followers:
        await gateway.ask("POST", f"/api/agents/{gateway.agent}/runs/{run_id}/cancel", {})
        follower.close()
    await gateway.ready()
    return Row("more RSS per active Run, its Worker included (shared pages counted in each)", "MiB", [(after - before + workers) / ACTIVE], 16)


async def body_row(gateway: Gateway) -> Row:
    place = await gateway.new_conversation()
    _, _, _, follower = await gateway.begin(gateway.agent, place, "say hi")
    await follower.until(END)
    follower.close()
    await gateway.ready()
    return Row('provider request body for "say hi", whole toolset', "kB", [(await exchanges(gateway.provider_port, "plain"))[-1]["bytes"] / 1000], 5)


async def sync_row(scratch: Path, provider: Provider, repeats: int) -> Row:
    """Calls of the Gateway and whatever it starts, counted by strace; those of checkpoints come every 128 commits."""
    figure = f"syncs per Run (fsync, fdatasync, msync), mean of {repeats} Runs"
    if strace() is None:
        return Row(figure, "calls", remark="not measured: strace is not installed")
    root, log = scratch / "traced", scratch / "strace.log"
    make_checkout(root, catalog(f"http://127.0.0.1:{provider.port}", "bench:1b", PROFILE))
    command = ("strace", "-f", "--seccomp-bpf", "-q", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o", str(log))
    async with Gateway(root, provider.port, command) as gateway:
        await gateway.run(spec())
        before = _calls(log)
        for _ in range(repeats):
            await gateway.run(spec())
        await asyncio.sleep(0.2)  # strace writes its log a little later
        made = (_calls(log) - before) / repeats
    return Row(figure, "calls", [made])


def _calls(log: Path) -> int:
    return sum("sync" in line for line in log.read_text().splitlines())
