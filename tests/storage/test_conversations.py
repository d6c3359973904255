import asyncio
from datetime import timedelta

import pytest

from agent_builder.protocol.errors import ConversationBusy, ConversationLimit, InvalidRequest, NotFound
from agent_builder.protocol.events import ThinkingDelta
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import CONVERSATIONS_PER_AGENT
from agent_builder.storage.boundaries import head_boundary
from agent_builder.storage.conversations import (
    UNTITLED,
    ConversationRow,
    branch_conversation,
    create_conversation,
    delete_conversation,
    get_conversation,
    list_conversations,
    rename_conversation,
)
from agent_builder.storage.database import Database
from agent_builder.storage.journal import append_events, read_events
from agent_builder.storage.summaries import SummaryRow, latest_summary, put_summary
from agent_builder.storage.turns import bundles, get_turn_by_run, turn_page
from tests.support.stored import NOW, begun, completed, conversation, ended, event

LATER = NOW + timedelta(hours=1)


async def test_a_new_conversation_is_empty_and_idle(state: Database) -> None:
    made = await state.run(lambda conn: create_conversation(conn, "c-1", "Plan", NOW))
    assert made == ConversationRow("c-1", "Plan", NOW, NOW, 1, None)
    assert await state.read(lambda conn: get_conversation(conn, "c-1")) == made
    assert await state.read(lambda conn: turn_page(conn, "c-1", None, 32)) == ([], None)


async def test_without_a_title_the_first_message_gives_it_and_later_ones_do_not(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        titles = [get_conversation(conn, made).title]
        for title in ("First", "Second"):
            completed(conn, made, title=title)
            titles.append(get_conversation(conn, made).title)
        return titles

    assert await state.run(story) == [UNTITLED, "First", "First"]


async def test_a_given_title_is_kept(state: Database) -> None:
    def story(conn):
        made = conversation(conn, "Mine")
        begun(conn, made, title="From the message")
        return get_conversation(conn, made).title

    assert await state.run(story) == "Mine"


async def test_the_list_has_the_newest_activity_first_and_marks_what_runs(state: Database) -> None:
    def story(conn):
        old, _new, busy = (conversation(conn, name, minute) for minute, name in enumerate(("old", "new", "busy")))
        turn = begun(conn, busy, now=NOW - timedelta(minutes=5))
        completed(conn, old, now=LATER)
        return [(row.title, row.running_run_id) for row in list_conversations(conn)], turn.run_id

    found, running = await state.run(story)
    assert found == [("new", None), ("old", None), ("busy", running)]


async def test_a_rename_ends_the_revision(state: Database) -> None:
    made = await state.run(lambda conn: conversation(conn, "Old"))
    renamed = await state.run(lambda conn: rename_conversation(conn, made, "New", LATER))
    assert renamed == ConversationRow(made, "New", NOW, LATER, 2, None)


@pytest.mark.parametrize(
    "use",
    [
        lambda conn: get_conversation(conn, "none"),
        lambda conn: rename_conversation(conn, "none", "x", NOW),
        lambda conn: delete_conversation(conn, "none"),
        lambda conn: branch_conversation(conn, "none", "new", "x", NOW),
        lambda conn: turn_page(conn, "none", None, 32),
        lambda conn: bundles(conn, "none"),
    ],
)
async def test_an_unknown_conversation_is_not_found(state: Database, use) -> None:
    with pytest.raises(NotFound):
        await state.run(use)


async def test_the_hundredth_conversation_is_made_and_the_next_is_refused(state: Database) -> None:
    await state.run(lambda conn: [conversation(conn) for _ in range(CONVERSATIONS_PER_AGENT - 1)])

    async def create() -> str:
        try:
            await state.run(conversation)
        except ConversationLimit:
            return "limit"
        return "made"

    assert sorted(await asyncio.gather(*(create() for _ in range(20)))) == ["limit"] * 19 + ["made"]
    assert len(await state.read(list_conversations)) == CONVERSATIONS_PER_AGENT


async def test_deleting_takes_turns_events_boundaries_and_summaries_along(state: Database) -> None:
    def story(conn):
        made, other = conversation(conn), conversation(conn)
        turns = [completed(conn, made), ended(conn, made, "failed")]
        kept = completed(conn, other)
        for turn in (*turns, kept):
            append_events(conn, [event(turn, 1, ThinkingDelta(text="x"))])
        for one in (made, other):
            put_summary(conn, SummaryRow(one, "digest", None, 1, "text", "semantic-summary-v2", "m", NOW))
        gone = delete_conversation(conn, made)
        counts = {table: conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in (
            "conversations", "turns", "conversation_turns", "bundles", "journal_runs", "events", "boundaries", "summaries"
        )}
        return gone, [turn.run_id for turn in turns], counts, [get_turn_by_run(conn, run) for run in gone]

    gone, runs, counts, found = await state.run(story)
    assert gone == runs
    assert counts == dict.fromkeys(counts, 1)
    assert found == [None, None]


@pytest.mark.parametrize("use", [delete_conversation, lambda conn, one: branch_conversation(conn, one, "new", "x", NOW)])
async def test_a_busy_conversation_is_neither_deleted_nor_branched(state: Database, use) -> None:
    def begin(conn):
        made = conversation(conn)
        completed(conn, made)
        begun(conn, made)
        return made

    made = await state.run(begin)
    with pytest.raises(ConversationBusy):
        await state.run(lambda conn: use(conn, made))
    assert len(await state.read(list_conversations)) == 1


def shown(conn, conversation_id: str) -> list[tuple[str, str, str | None]]:
    rows, _ = turn_page(conn, conversation_id, None, 32)
    return [(row.state, row.user_text, row.assistant_text) for row in rows]


async def test_a_branch_shows_everything_up_to_the_completed_head(state: Database) -> None:
    def story(conn):
        made = conversation(conn, "Source")
        completed(conn, made, "one", "1")
        ended(conn, made, "failed", "two")
        completed(conn, made, "three", "3")
        ended(conn, made, "cancelled", "four")
        branch_conversation(conn, made, "branch", "Branch", LATER)
        return shown(conn, "branch"), [(one.user_text, one.answer) for one in bundles(conn, "branch")], get_conversation(conn, "branch")

    turns, history, row = await state.run(story)
    assert turns == [("completed", "one", "1"), ("failed", "two", None), ("completed", "three", "3")]
    assert history == [("one", "1"), ("three", "3")]
    assert row == ConversationRow("branch", "Branch", LATER, LATER, 1, None)


async def test_a_conversation_without_a_completed_turn_cannot_be_branched(state: Database) -> None:
    def begin(conn):
        made = conversation(conn)
        ended(conn, made, "cancelled")
        return made

    made = await state.run(begin)
    with pytest.raises(InvalidRequest, match="no completed Turn"):
        await state.run(lambda conn: branch_conversation(conn, made, "new", "x", NOW))


async def test_a_branch_lives_on_byte_for_byte_when_its_source_is_deleted(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        turns = [completed(conn, made, f"question {n} \u2028 é", f"answer {n} 🧵") for n in range(3)]
        append_events(conn, [event(turns[0], 1, ThinkingDelta(text="x"))])
        branch_conversation(conn, made, "branch", "B", NOW)
        own = completed(conn, "branch", "own", "mine")
        before = turn_page(conn, "branch", None, 32)[0], bundles(conn, "branch")
        gone = delete_conversation(conn, made)
        after = turn_page(conn, "branch", None, 32)[0], bundles(conn, "branch")
        events = [read_events(conn, turn.run_id, 0, 10) for turn in turns]
        reachable = [get_turn_by_run(conn, turn.run_id) for turn in (*turns, own)]
        branch_conversation(conn, "branch", "again", "C", NOW)
        delete_conversation(conn, "branch")
        rest = [turn.user_text for turn in turn_page(conn, "again", None, 32)[0]]
        delete_conversation(conn, "again")
        left = conn.execute("SELECT count(*) FROM turns").fetchone()[0]
        return before, after, gone, [turn.run_id for turn in turns], events, reachable, rest, left

    before, after, gone, runs, events, reachable, rest, left = await state.run(story)
    assert after == before
    assert gone == runs
    assert events == [[], [], []]
    assert [turn is None for turn in reachable] == [True, True, True, False]
    assert list(rest) == [f"question {n} \u2028 é" for n in range(3)] + ["own"]
    assert left == 0


async def test_deleting_the_branch_leaves_its_source_whole(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        turn = completed(conn, made, "one", "1")
        append_events(conn, [event(turn, 1, ThinkingDelta(text="x"))])
        branch_conversation(conn, made, "branch", "B", NOW)
        gone = delete_conversation(conn, "branch")
        return gone, shown(conn, made), len(read_events(conn, turn.run_id, 0, 10)), get_turn_by_run(conn, turn.run_id) == turn

    assert await state.run(story) == ([], [("completed", "one", "1")], 1, True)


async def test_branch_and_source_run_at_the_same_time_and_grow_apart(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        completed(conn, made, "shared")
        branch_conversation(conn, made, "branch", "B", NOW)
        one, two = begun(conn, made, "left"), begun(conn, "branch", "right")
        running = {row.conversation_id: row.running_run_id for row in list_conversations(conn)}
        return running == {made: one.run_id, "branch": two.run_id}, shown(conn, made)[1][1], shown(conn, "branch")[1][1]

    assert await state.run(story) == (True, "left", "right")


async def test_a_branch_inherits_summaries_but_no_boundaries(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        completed(conn, made)
        put_summary(conn, SummaryRow(made, "digest", None, 1, "text", "semantic-summary-v2", "m", NOW))
        branch_conversation(conn, made, "branch", "B", NOW)
        return latest_summary(conn, "branch"), head_boundary(conn, "branch")

    assert await state.run(story) == (SummaryRow("branch", "digest", None, 1, "text", "semantic-summary-v2", "m", NOW), None)


async def test_branches_count_as_conversations(state: Database) -> None:
    def fill(conn):
        made = conversation(conn)
        completed(conn, made)
        for _ in range(CONVERSATIONS_PER_AGENT - 1):
            branch_conversation(conn, made, new_id(), "B", NOW)
        return made

    made = await state.run(fill)
    with pytest.raises(ConversationLimit):
        await state.run(lambda conn: branch_conversation(conn, made, "one-more", "B", NOW))
    assert len(await state.read(list_conversations)) == CONVERSATIONS_PER_AGENT
