from collections.abc import AsyncIterator
from pathlib import Path
from sqlite3 import Connection

import pytest

from agent_builder.gateway.replay import open_replay, read_page, run_exists
from agent_builder.gateway.sse import Source
from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.events import (
    AssistantMessage,
    Control,
    Event,
    ModelRequestStarted,
    RunInterrupted,
    ToolCallStarted,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import JOURNAL_RUNS_KEPT, RECOVERY_SEQ_STEP, REPLAY_PAGE
from agent_builder.protocol.messages import Usage
from agent_builder.storage.conversations import delete_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.journal import append_events
from tests.support import stored

STEP = ModelRequestStarted(call=1, round=1, attempt=1)
END = RunInterrupted(usage=Usage())


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await stored.open_state(tmp_path)
    yield opened
    await opened.close()


async def run_with_seqs(database: Database, *seqs: int, conversation: str | None = None) -> str:
    """A Run of a completed Turn whose journal holds these seqs, the last one its terminal."""

    def make(conn: Connection) -> str:
        turn = stored.completed(conn, conversation or stored.conversation(conn))
        append_events(conn, [stored.event(turn, seq, END if seq == seqs[-1] else STEP) for seq in seqs])
        return turn.run_id

    return await database.run(make)


async def drained(source: Source) -> tuple[list[Control], list[int]]:
    controls: list[Control] = []
    seqs: list[int] = []
    while items := await source.batch():
        for item in items:
            if isinstance(item, Control):
                assert not seqs
                controls.append(item)
            else:
                seqs.append(item.seq)
    return controls, seqs


def kinds(controls: list[Control]) -> list[tuple[str, int | None, int | None]]:
    return [(one.kind, one.from_seq, one.to_seq) for one in controls]


@pytest.mark.parametrize(("after", "gap", "rest"), [
    (0, ("gap", 4, 8), [1, 2, 3, 6, 9]),
    (1, ("gap", 4, 8), [2, 3, 6, 9]),
    (4, ("gap", 5, 8), [6, 9]),
    (5, ("gap", 7, 8), [6, 9]),
    (7, ("gap", 8, 8), [9]),
    (8, None, [9]),
    (9, None, []),
    (4000, None, []),
])
async def test_a_replay_names_what_is_missing_and_gives_exactly_the_rest(
    database: Database, after: int, gap: tuple[str, int, int] | None, rest: list[int]
) -> None:
    run = await run_with_seqs(database, 1, 2, 3, 6, 9)
    controls, seqs = await drained(await open_replay(database, run, after))
    assert kinds(controls) == [*([gap] if gap else []), ("snapshot", None, None)]
    assert seqs == rest


async def test_the_snapshot_is_the_turn_as_clients_see_it(database: Database) -> None:
    run = await run_with_seqs(database, 1, RECOVERY_SEQ_STEP + 1)
    controls, seqs = await drained(await open_replay(database, run, 1))
    assert controls[-1].turn is not None
    assert {"run_id": run, "state": "completed", "user_text": "question", "assistant_text": "answer"}.items() <= controls[-1].turn.items()
    assert controls[0].run_id == controls[1].run_id == run
    assert seqs == [RECOVERY_SEQ_STEP + 1]


async def test_a_long_journal_comes_in_pages_and_whole(database: Database) -> None:
    wanted = list(range(1, 2 * REPLAY_PAGE + 3))
    run = await run_with_seqs(database, *wanted)
    source = await open_replay(database, run, 0)
    sizes = []
    seqs: list[int] = []
    while items := await source.batch():
        sizes.append(len(items))
        seqs += [item.seq for item in items if isinstance(item, Event)]
    assert sizes == [REPLAY_PAGE + 1, REPLAY_PAGE, 2]
    assert seqs == wanted


async def test_a_run_whose_events_are_no_longer_kept_gives_a_gap_and_its_turn(database: Database) -> None:
    old = await run_with_seqs(database, 1, 2)
    conversation = await database.run(stored.conversation)
    for _ in range(JOURNAL_RUNS_KEPT):
        await run_with_seqs(database, 1, conversation=conversation)
    for after in (0, 1, 7):
        controls, seqs = await drained(await open_replay(database, old, after))
        assert kinds(controls) == [("gap", after + 1, None), ("snapshot", None, None)]
        assert seqs == []


async def test_a_run_that_is_unknown_or_deleted_is_not_found(database: Database) -> None:
    def make(conn: Connection) -> tuple[str, str]:
        conversation = stored.conversation(conn)
        turn = stored.completed(conn, conversation)
        append_events(conn, [stored.event(turn, 1, END)])
        return conversation, turn.run_id

    conversation, run = await database.run(make)
    assert await run_exists(database, run)
    await database.run(lambda conn: delete_conversation(conn, conversation))
    assert not await run_exists(database, run)
    for wanted in (run, new_id()):
        with pytest.raises(NotFound):
            await open_replay(database, wanted, 0)
        with pytest.raises(NotFound):
            await read_page(database, wanted, 0, 10, None)


async def test_pages_of_durable_events_follow_one_another(database: Database) -> None:
    run = await run_with_seqs(database, 1, 4, 5, 9)
    pages = []
    after, more = 0, True
    while more:
        events, more = await read_page(database, run, after, 2, None)
        pages.append([event.seq for event in events])
        after = events[-1].seq
    assert pages == [[1, 4], [5, 9]]
    assert await read_page(database, run, 9, 2, None) == ([], False)


async def test_a_page_may_be_of_some_types_only(database: Database) -> None:
    def make(conn: Connection) -> str:
        turn = stored.completed(conn, stored.conversation(conn))
        call = ToolCallStarted(call_id="c", tool_id="file/stat")
        append_events(conn, [stored.event(turn, 1, STEP), stored.event(turn, 2, call), stored.event(turn, 3, AssistantMessage(text="x"))])
        return turn.run_id

    events, more = await read_page(database, await database.run(make), 0, 10, [ToolCallStarted.type])
    assert ([event.seq for event in events], more) == ([2], False)


async def test_a_closed_replay_gives_nothing_more(database: Database) -> None:
    source = await open_replay(database, await run_with_seqs(database, 1, 2), 0)
    source.close()
    assert await source.batch() == []
