import pytest

from agent_builder.protocol.events import AssistantMessage, RunCancelled, ThinkingDelta
from agent_builder.protocol.limits import JOURNAL_RUNS_KEPT
from agent_builder.protocol.messages import Usage
from agent_builder.storage.database import Database
from agent_builder.storage.journal import JournalOrder, append_events, last_seq, read_events
from tests.support.stored import begun, completed, conversation, ended, event

TERMINAL = RunCancelled(usage=Usage(), elapsed_ms=5)


def text(number: int) -> AssistantMessage:
    return AssistantMessage(text=f"part {number} \u2028 🧵")


async def test_events_come_back_as_they_were_in_order(state: Database) -> None:
    def story(conn):
        turn = begun(conn, conversation(conn))
        events = [event(turn, seq, text(seq)) for seq in (1, 2, 7)] + [event(turn, 9, TERMINAL)]
        append_events(conn, events[:2])
        append_events(conn, events[2:])
        return turn.run_id, events

    run_id, events = await state.run(story)
    read = [await state.read(lambda conn, at=after: read_events(conn, run_id, at, 10)) for after in (0, 2, 8, 9)]
    assert read == [events, events[2:], events[3:], []]
    assert await state.read(lambda conn: read_events(conn, run_id, 0, 2)) == events[:2]
    assert await state.read(lambda conn: last_seq(conn, run_id)) == 9


async def test_events_can_be_read_by_type(state: Database) -> None:
    def story(conn):
        turn = begun(conn, conversation(conn))
        append_events(conn, [event(turn, 1, text(1)), event(turn, 2, ThinkingDelta(text="x")), event(turn, 3, TERMINAL)])
        return [found.seq for found in read_events(conn, turn.run_id, 0, 10, ["run.cancelled", "assistant.message"])], read_events(conn, turn.run_id, 0, 10, [])

    assert await state.run(story) == ([1, 3], [])


async def test_an_unknown_run_has_no_events(state: Database) -> None:
    assert await state.read(lambda conn: (read_events(conn, "none", 0, 10), last_seq(conn, "none"))) == ([], 0)


@pytest.mark.parametrize("seq", [1, 4, 5])
async def test_a_sequence_number_never_comes_twice_or_too_late(state: Database, seq: int) -> None:
    turn = await state.run(lambda conn: begun(conn, conversation(conn)))
    await state.run(lambda conn: append_events(conn, [event(turn, 5, text(5))]))
    with pytest.raises(JournalOrder):
        await state.run(lambda conn: append_events(conn, [event(turn, seq, text(seq))]))


async def test_nothing_follows_a_terminal_event_and_the_whole_batch_is_dropped(state: Database) -> None:
    turn = await state.run(lambda conn: begun(conn, conversation(conn)))
    with pytest.raises(JournalOrder):
        await state.run(lambda conn: append_events(conn, [event(turn, 1, TERMINAL), event(turn, 2, text(2))]))
    assert await state.read(lambda conn: last_seq(conn, turn.run_id)) == 0


async def test_the_events_of_the_newest_256_runs_are_kept(state: Database) -> None:
    def fill(conn):
        made = conversation(conn)
        runs = []
        for _ in range(JOURNAL_RUNS_KEPT + 1):
            turn = ended(conn, made, "cancelled")
            append_events(conn, [event(turn, 1, text(1)), event(turn, 2, TERMINAL)])
            runs.append((turn.run_id, last_seq(conn, runs[0][0]) if runs else 2))
        return runs

    runs = await state.run(fill)
    assert [seq for _, seq in runs] == [2] * JOURNAL_RUNS_KEPT + [0]
    assert await state.read(lambda conn: [last_seq(conn, run_id) for run_id, _ in runs]) == [0] + [2] * JOURNAL_RUNS_KEPT


async def test_an_unfinished_run_keeps_its_events_however_old(state: Database) -> None:
    def fill(conn):
        waiting = begun(conn, conversation(conn))
        append_events(conn, [event(waiting, 1, text(1))])
        other = conversation(conn)
        for _ in range(JOURNAL_RUNS_KEPT + 5):
            append_events(conn, [event(completed(conn, other), 1, text(1))])
        return last_seq(conn, waiting.run_id), conn.execute("SELECT count(*) FROM journal_runs").fetchone()[0]

    assert await state.run(fill) == (1, JOURNAL_RUNS_KEPT + 1)
