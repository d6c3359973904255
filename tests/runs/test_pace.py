"""What the page is shown of a call: soon at first, then in larger pieces, always all of it, and never too many events."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.protocol.events import (
    AssistantDelta,
    Event,
    ModelRequestStarted,
    RunIdentity,
    RunStage,
    ThinkingDelta,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import (
    DATABASE_BYTES,
    EPHEMERAL_BETWEEN_DURABLE,
    PAGE_FRAMES_AT_ONCE,
    PAGE_MERGE_BYTES,
    PAGE_MERGE_MS,
)
from agent_builder.runs.live import LiveRecord
from agent_builder.runs.pace import PageDeltas
from agent_builder.runs.sequencer import Sequencer
from agent_builder.storage.database import Database
from agent_builder.storage.migrations import AGENT_MIGRATIONS
from tests.support.clock import MovableClock


class Shown:
    """Deltas of one call, and what became of them."""

    def __init__(self, database: Database) -> None:
        self.clock = MovableClock()
        run = RunIdentity(agent_id=new_id(), conversation_id=new_id(), turn_id=new_id(), run_id=new_id())
        self.record = LiveRecord(run)
        self.sequencer = Sequencer(run, self.record, database, self.clock)
        self.deltas = PageDeltas(self.sequencer, self.clock)
        self.events: list[Event] = []
        self.record.append = self.events.extend  # type: ignore[method-assign]

    def text(self, kind: type[AssistantDelta] | type[ThinkingDelta]) -> str:
        return "".join(str(event.payload["text"]) for event in self.events if event.type == kind.type)


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    database = await Database.open(tmp_path / "state.sqlite", AGENT_MIGRATIONS, max_bytes=DATABASE_BYTES)
    yield Shown(database)
    await database.close()


async def test_the_first_pieces_go_out_at_once_and_later_ones_when_time_or_size_is_reached(shown: Shown) -> None:
    for number in range(PAGE_FRAMES_AT_ONCE):
        await shown.deltas.text("a")
        assert len(shown.events) == number + 1
    await shown.deltas.text("b")
    assert len(shown.events) == PAGE_FRAMES_AT_ONCE
    await shown.deltas.text("c" * (PAGE_MERGE_BYTES - 1))
    assert shown.events[-1].payload == {"text": "b" + "c" * (PAGE_MERGE_BYTES - 1)}
    await shown.deltas.text("d")
    shown.clock.advance(PAGE_MERGE_MS / 1000)
    await shown.deltas.text("e")
    assert shown.events[-1].payload == {"text": "de"}


async def test_held_text_is_shown_when_its_time_has_come_though_nothing_follows(shown: Shown) -> None:
    keeping = asyncio.create_task(shown.deltas.keep_time())
    for _ in range(PAGE_FRAMES_AT_ONCE + 1):
        await shown.deltas.text("a")
    async with asyncio.timeout(10):
        while len(shown.text(AssistantDelta)) <= PAGE_FRAMES_AT_ONCE:
            shown.clock.advance(PAGE_MERGE_MS / 1000)
            await asyncio.sleep(0.001)
    keeping.cancel()


@pytest.mark.parametrize("interval_s", [0.0, 1.0])
async def test_a_call_that_changes_between_thinking_and_text_loses_neither(shown: Shown, interval_s: float) -> None:
    """More changes than there are ephemeral seqs between two durable events."""
    changes = 2 * EPHEMERAL_BETWEEN_DURABLE
    await shown.sequencer.emit(ModelRequestStarted(call=1, round=1, attempt=1), RunStage(stage="thinking"))
    for number in range(changes):
        await shown.deltas.thinking(f"t{number}.")
        await shown.deltas.text(f"a{number}.")
        shown.clock.advance(interval_s)
    await shown.deltas.flush()
    await shown.sequencer.emit(RunStage(stage="answering"))
    assert shown.text(ThinkingDelta) == "".join(f"t{number}." for number in range(changes))
    assert shown.text(AssistantDelta) == "".join(f"a{number}." for number in range(changes))
    assert shown.events[-1].seq <= EPHEMERAL_BETWEEN_DURABLE + 1
    assert shown.events[-1].payload == {"stage": "answering"}
