import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_builder.protocol.errors import Internal, StorageFull
from agent_builder.protocol.events import (
    AssistantDelta,
    AssistantMessage,
    Event,
    ModelRequestStarted,
    Payload,
    RunCancelled,
    RunIdentity,
    RunStage,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import DATABASE_BYTES, DURABLE_BYTES, EPHEMERAL_BETWEEN_DURABLE
from agent_builder.protocol.messages import Usage
from agent_builder.runs.live import LiveRecord
from agent_builder.runs.sequencer import Sequencer
from agent_builder.storage.database import Database
from agent_builder.storage.journal import read_events
from agent_builder.storage.migrations import AGENT_MIGRATIONS
from tests.support.clock import MovableClock

END = RunCancelled(usage=Usage(), elapsed_ms=1)


class Bench:
    """A sequencer with a real database and record."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.identity = RunIdentity(agent_id=new_id(), conversation_id=new_id(), turn_id=new_id(), run_id=new_id())
        self.record = LiveRecord(self.identity)
        self.sequencer = Sequencer(self.identity, self.record, database, MovableClock())

    async def journal(self) -> list[Event]:
        return await self.database.read(lambda conn: read_events(conn, self.identity.run_id, 0, 10_000))

    @property
    def seen(self) -> list[Event]:
        return self.record.after(0)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    database = await Database.open(tmp_path / "state.sqlite", AGENT_MIGRATIONS, max_bytes=DATABASE_BYTES)
    yield Bench(database)
    await database.close()


async def test_seqs_count_from_one_and_only_durable_events_are_stored(bench: Bench) -> None:
    await bench.sequencer.emit(RunStage(stage="preparing"), ModelRequestStarted(call=1, round=1, attempt=1))
    await bench.sequencer.emit(AssistantDelta(text="a"))
    await bench.sequencer.emit(AssistantMessage(text="a"), END)
    assert [event.seq for event in bench.seen] == [1, 2, 3, 4, 5]
    assert await bench.journal() == [event for event in bench.seen if event.durability == "durable"]


async def test_nothing_follows_the_terminal(bench: Bench) -> None:
    await bench.sequencer.emit(END)
    with pytest.raises(Internal):
        await bench.sequencer.emit(AssistantDelta(text="late"))
    assert len(bench.seen) == 1


async def test_a_failed_transaction_leaves_no_event_and_no_hole(bench: Bench) -> None:
    def fail(conn: sqlite3.Connection) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await bench.sequencer.commit([ModelRequestStarted(call=1, round=1, attempt=1)], fail)
    assert bench.seen == [] and await bench.journal() == []
    await bench.sequencer.emit(RunStage(stage="tool"))
    assert [event.seq for event in bench.seen] == [1]


async def test_an_ephemeral_event_does_not_overtake_a_commit(bench: Bench) -> None:
    await asyncio.gather(
        bench.sequencer.emit(ModelRequestStarted(call=1, round=1, attempt=1)), bench.sequencer.emit(AssistantDelta(text="after"))
    )
    assert [event.type for event in bench.seen] == ["model.request.started", "assistant.block.delta"]


async def test_at_most_1024_ephemeral_events_pass_between_durable_ones(bench: Bench) -> None:
    for _ in range(EPHEMERAL_BETWEEN_DURABLE + 10):
        await bench.sequencer.emit(RunStage(stage="answering"))
    await bench.sequencer.emit(END)
    assert bench.seen[-1].seq == EPHEMERAL_BETWEEN_DURABLE + 1


async def test_a_terminal_is_tried_again_with_the_same_event_until_it_is_stored(bench: Bench) -> None:
    tries: list[str] = []

    def full_twice(conn: sqlite3.Connection) -> None:
        [(event,)] = conn.execute("SELECT event FROM events").fetchall()
        tries.append(Event.model_validate_json(event).event_id)
        if len(tries) < 3:
            raise StorageFull

    waits: list[None] = []

    async def wait() -> None:
        assert bench.seen == []
        waits.append(None)

    await bench.sequencer.commit_terminal([END], full_twice, wait)
    assert len(waits) == 2
    assert set(tries) == {bench.seen[0].event_id}
    assert await bench.journal() == bench.seen


async def test_the_journal_of_a_run_is_bounded_but_its_terminal_always_fits(bench: Bench) -> None:
    text = "x" * (DURABLE_BYTES // 4)
    with pytest.raises(Internal):
        for _ in range(5):
            await bench.sequencer.emit(AssistantMessage(text=text))
    await bench.sequencer.emit(AssistantMessage(text=text), END)
    assert bench.seen[-1].type == "run.cancelled"


PAYLOADS = st.sampled_from([RunStage(stage="tool"), AssistantDelta(text="d"), ModelRequestStarted(call=1, round=1, attempt=1)])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(PAYLOADS, min_size=1, max_size=4), max_size=12))
async def test_concurrent_emitters_never_share_or_skip_a_seq(bench: Bench, boundaries: list[list[Payload]]) -> None:
    fresh = Bench(bench.database)
    await asyncio.gather(*(fresh.sequencer.emit(*payloads) for payloads in boundaries))
    assert [event.seq for event in fresh.seen] == list(range(1, sum(map(len, boundaries)) + 1))
    assert await fresh.journal() == [event for event in fresh.seen if event.durability == "durable"]


@pytest.mark.parametrize("cancels", [1, 3])
async def test_what_is_being_stored_when_the_run_is_cancelled_is_told_and_the_terminal_follows_it(bench: Bench, cancels: int) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(conn: sqlite3.Connection) -> None:
        entered.set()
        leave.wait(20)

    storing = asyncio.create_task(bench.sequencer.commit([ModelRequestStarted(call=1, round=1, attempt=1)], hold))
    await asyncio.to_thread(entered.wait, 20)
    for _ in range(cancels):
        storing.cancel()
        await asyncio.sleep(0)
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await storing
    await bench.sequencer.commit_terminal([END], lambda conn: None, asyncio.Event().wait)
    assert [event.seq for event in bench.seen] == [1, 2]
    assert await bench.journal() == bench.seen


async def test_a_refused_transaction_of_a_cancelled_run_changes_nothing(bench: Bench) -> None:
    entered, leave = threading.Event(), threading.Event()

    def refuse(conn: sqlite3.Connection) -> None:
        entered.set()
        leave.wait(20)
        raise StorageFull

    storing = asyncio.create_task(bench.sequencer.commit([ModelRequestStarted(call=1, round=1, attempt=1)], refuse))
    await asyncio.to_thread(entered.wait, 20)
    storing.cancel()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await storing
    await bench.sequencer.commit_terminal([END], lambda conn: None, asyncio.Event().wait)
    assert [event.seq for event in bench.seen] == [1]
