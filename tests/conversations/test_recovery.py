import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.conversations.recovery import recover
from agent_builder.protocol.errors import StorageFull
from agent_builder.protocol.events import (
    AssistantMessage,
    ModelRequestStarted,
    ModelResponseFinished,
    PermissionRequested,
    PermissionResolved,
    ToolCallFinished,
    ToolCallProposed,
    ToolCallStarted,
    TransportAttemptFinished,
    TransportAttemptStarted,
)
from agent_builder.protocol.limits import DATABASE_RESERVE_BYTES, RECOVERY_SEQ_STEP
from agent_builder.protocol.messages import Usage
from agent_builder.storage.conversations import list_conversations
from agent_builder.storage.database import Database
from agent_builder.storage.journal import append_events, read_events
from agent_builder.storage.turns import bundles, get_turn_by_run, turn_page, unfinished_turns
from tests.support.stored import (
    AGENT,
    NOW,
    FixedClock,
    admitted,
    begun,
    completed,
    conversation,
    ended,
    event,
    open_state,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_state(tmp_path)
    yield database
    await database.close()


async def test_a_turn_left_preparing_or_running_is_interrupted_once(state: Database) -> None:
    def leave(conn):
        one, two = begun(conn, conversation(conn)), admitted(conn, conversation(conn))
        append_events(conn, [event(two, 3, ModelRequestStarted(call=1, round=1, attempt=1))])
        return one, two

    one, two = await state.run(leave)
    assert await recover(state, FixedClock(), AGENT) == [one.run_id, two.run_id]
    assert await recover(state, FixedClock(), AGENT) == []

    def look(conn):
        return [(get_turn_by_run(conn, turn.run_id), read_events(conn, turn.run_id, 0, 10)) for turn in (one, two)]

    (first, first_events), (second, second_events) = await state.read(look)
    assert [(turn.state, turn.assistant_text, turn.finished_at) for turn in (first, second)] == [("interrupted", None, NOW)] * 2
    assert [(found.type, found.seq, found.terminal) for found in first_events] == [("run.interrupted", RECOVERY_SEQ_STEP, True)]
    assert [(found.type, found.seq) for found in second_events] == [
        ("model.request.started", 3), ("model.response.finished", 3 + RECOVERY_SEQ_STEP), ("run.interrupted", 3 + 2 * RECOVERY_SEQ_STEP),
    ]
    assert second_events[-1].agent_id == AGENT
    assert (first.usage, second.usage) == (Usage(), Usage(complete=False))


async def test_a_recovered_conversation_is_free_and_its_history_is_whole(state: Database) -> None:
    def leave(conn):
        made = conversation(conn)
        completed(conn, made, "kept")
        admitted(conn, made, "lost")
        return made

    made = await state.run(leave)
    await recover(state, FixedClock(), AGENT)

    def look(conn):
        begun(conn, made, "next")
        turns, _ = turn_page(conn, made, None, 32)
        return [(turn.state, turn.user_text) for turn in turns], [bundle.user_text for bundle in bundles(conn, made)]

    assert await state.run(look) == ([("completed", "kept"), ("interrupted", "lost"), ("preparing", "next")], ["kept"])


async def test_finished_turns_are_left_alone(state: Database) -> None:
    def leave(conn):
        made = conversation(conn)
        return [completed(conn, made), *(ended(conn, made, kind) for kind in ("failed", "cancelled", "interrupted"))]

    before = await state.run(leave)
    assert await recover(state, FixedClock(), AGENT) == []
    assert await state.read(lambda conn: [get_turn_by_run(conn, turn.run_id) for turn in before]) == before


def proposed(call: str) -> ToolCallProposed:
    return ToolCallProposed(call_id=call, tool_id="file/write", arguments_digest="d", preview="p", written_as_text=False)


async def test_open_calls_and_approvals_are_closed_before_the_end(state: Database) -> None:
    def leave(conn):
        turn = admitted(conn, conversation(conn))
        append_events(conn, [
            event(turn, 1, ModelRequestStarted(call=1, round=1, attempt=1)),
            event(turn, 2, ModelResponseFinished(call=1, reason="tool", usage=Usage(input=50, output=5))),
            event(turn, 3, proposed("done")),
            event(turn, 4, ToolCallStarted(call_id="done", tool_id="file/write")),
            event(turn, 5, ToolCallFinished(call_id="done", tool_id="file/write", outcome="ok", receipt={})),
            event(turn, 6, proposed("begun")),
            event(turn, 7, PermissionRequested(permission_id="p-1", call_id="begun", tool_id="file/write", preview="p", truncated=False, expires_at=NOW)),
            event(turn, 8, PermissionResolved(permission_id="p-1", decision="approve")),
            event(turn, 9, ToolCallStarted(call_id="begun", tool_id="file/write")),
            event(turn, 10, proposed("asked")),
            event(turn, 11, PermissionRequested(permission_id="p-2", call_id="asked", tool_id="file/write", preview="p", truncated=False, expires_at=NOW)),
        ])
        return turn

    turn = await state.run(leave)
    await recover(state, FixedClock(), AGENT)
    rest = await state.read(lambda conn: read_events(conn, turn.run_id, 11, 10))
    call = {"tool_id": "file/write", "code": "interrupted", "receipt": {}}
    assert [(found.type, found.payload) for found in rest] == [
        ("permission.resolved", {"permission_id": "p-2", "decision": "stale"}),
        ("tool.call.finished", {"call_id": "begun", "outcome": "outcome_unknown", **call}),
        ("tool.call.finished", {"call_id": "asked", "outcome": "failed", **call}),
        ("run.interrupted", {"usage": {"input": 50, "output": 5, "complete": True}}),
    ]
    assert [found.seq for found in rest] == [11 + RECOVERY_SEQ_STEP * step for step in range(1, 5)]


async def test_a_model_call_that_was_cut_short_gets_its_end_and_so_does_its_attempt(state: Database) -> None:
    def leave(conn):
        turn = admitted(conn, conversation(conn))
        append_events(conn, [
            event(turn, 1, ModelRequestStarted(call=1, round=1, attempt=1)),
            event(turn, 2, TransportAttemptStarted(call=1, attempt=1)),
            event(turn, 3, TransportAttemptFinished(call=1, attempt=1, outcome="model_transport", ms=5)),
            event(turn, 4, TransportAttemptStarted(call=1, attempt=2)),
        ])
        return turn

    turn = await state.run(leave)
    await recover(state, FixedClock(), AGENT)
    rest = await state.read(lambda conn: read_events(conn, turn.run_id, 4, 10))
    used = {"input": 0, "output": 0, "complete": False}
    assert [(found.type, found.payload) for found in rest] == [
        ("model.transport.attempt.finished", {"call": 1, "attempt": 2, "outcome": "interrupted"}),
        ("model.response.finished", {"call": 1, "reason": "interrupted", "usage": used}),
        ("run.interrupted", {"usage": used}),
    ]


async def test_the_end_is_written_even_when_the_database_is_full(tmp_path: Path) -> None:
    state = await open_state(tmp_path, max_bytes=2 * DATABASE_RESERVE_BYTES)

    turn = await state.run(lambda conn: admitted(conn, conversation(conn)))
    await state.run(lambda conn: completed(conn, conversation(conn), "x" * (DATABASE_RESERVE_BYTES * 5 // 8)), terminal=True)

    async def fill() -> None:
        """To the last byte that an event shorter than the one to come finds room in."""
        for seq in range(1, DATABASE_RESERVE_BYTES):
            await state.run(lambda conn, at=seq: append_events(conn, [event(turn, at, AssistantMessage(text=""))]))

    with pytest.raises(StorageFull):
        await fill()
    assert await recover(state, FixedClock(), AGENT) == [turn.run_id]
    await state.close()


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from agent_builder.conversations import recovery
from agent_builder.protocol.events import ModelRequestStarted
from agent_builder.storage.journal import append_events
from tests.support.stored import *

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def leave(conn):
    for _ in range(3):
        append_events(conn, [event(admitted(conn, conversation(conn)), 1, ModelRequestStarted(call=1, round=1, attempt=1))])

def wrapped(name, calls):
    original, left = getattr(recovery, name), [calls]
    def call(*args):
        left[0] -= 1
        if not left[0]:
            die()
        return original(*args)
    setattr(recovery, name, call)

async def main():
    state = await open_state(Path(sys.argv[1]))
    if sys.argv[2] == "leave":
        await state.run(leave)
        die()
    wrapped(sys.argv[3], int(sys.argv[4]))
    await recovery.recover(state, FixedClock(), AGENT)

asyncio.run(main())
"""


def child(*arguments: str) -> int:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.run([sys.executable, "-c", CHILD, *arguments], cwd=ROOT, env=env).returncode


@pytest.mark.parametrize(("step", "calls"), [("append_events", 1), ("append_events", 4), ("finish_turn", 1), ("finish_turn", 3)])
async def test_a_recovery_killed_half_way_is_done_whole_by_the_next(tmp_path: Path, step: str, calls: int) -> None:
    assert child(str(tmp_path), "leave") == -signal.SIGKILL
    assert child(str(tmp_path), "recover", step, str(calls)) == -signal.SIGKILL
    state = await open_state(tmp_path)
    left = await state.read(unfinished_turns)
    assert await recover(state, FixedClock(), AGENT) == [turn.run_id for turn in left]
    ends = await state.read(lambda conn: [read_events(conn, turn.run_id, 1, 10) for turn in left])
    running = [row.running_run_id for row in await state.read(list_conversations)]
    await state.close()
    assert len(left) == 3
    assert [[found.type for found in events] for events in ends] == [["model.response.finished", "run.interrupted"]] * 3
    assert running == [None] * 3
