import asyncio
import itertools
from datetime import timedelta

import pytest

from agent_builder.protocol.errors import ConversationBusy, ConversationLimit, IdempotencyMismatch, NotFound
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.messages import Attachment, CompletedTurnContext, Exchange, ToolExchange, Usage
from agent_builder.storage.boundaries import Boundary, BoundaryConflict, head_boundary
from agent_builder.storage.database import Database
from agent_builder.storage.turn_rows import TurnEnd, TurnError, TurnRow
from agent_builder.storage.turns import (
    IllegalMove,
    admit_turn,
    begin_turn,
    bundles,
    find_by_request,
    finish_turn,
    get_turn_by_run,
    last_reason,
    move,
    turn_page,
    unfinished_turns,
)
from tests.support.stored import NOW, admitted, begun, completed, conversation, ended, new_turn

STATES = ("preparing", "running", "completed", "failed", "cancelled", "interrupted")
LEGAL = {
    ("preparing", "running"), ("preparing", "failed"), ("preparing", "cancelled"), ("preparing", "interrupted"),
    ("running", "completed"), ("running", "failed"), ("running", "cancelled"), ("running", "interrupted"),
}
FILE = Attachment(path="notes/a.md", bytes=5000, digest="d" * 64, truncated=True, text="what the model saw")
LATER = NOW + timedelta(seconds=30)


@pytest.mark.parametrize(("state", "target"), [*itertools.product((*STATES, "unheard"), STATES)])
def test_a_turn_moves_along_the_table_and_nowhere_else(state: str, target: str) -> None:
    if (state, target) in LEGAL:
        assert move(state, target) == target
    else:
        with pytest.raises(IllegalMove):
            move(state, target)


async def test_a_new_turn_has_its_attachments_with_text_and_a_stored_one_without(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        new = new_turn(made, "look", attachments=(FILE,), client_request_id="r-1")
        return new, begin_turn(conn, new), get_turn_by_run(conn, new.run_id)

    new, row, stored = await state.run(story)
    assert row == TurnRow(
        turn_id=new.turn_id, run_id=new.run_id, operation_id=new.operation_id, conversation_id=new.conversation_id,
        state="preparing", user_text="look", attachments=(FILE,), assistant_text=None, reason=None, error=None, usage=None,
        model_id="model", created_at=NOW, finished_at=None, client_request_id="r-1",
    )
    assert stored is not None
    assert stored.attachments == (FILE.model_copy(update={"text": ""}),)
    assert await state.read(lambda conn: b"what the model saw" in conn.serialize()) is False


async def test_a_completed_turn_keeps_answer_usage_and_bundle(state: Database) -> None:
    call = ToolExchange(call_id="c", tool_id="file/stat", arguments={"path": "a"}, written_as_text=False, outcome="ok", result="5 bytes")
    usage = Usage(input=7, output=3, complete=False)

    def story(conn):
        turn = admitted(conn, conversation(conn), "ask")
        bundle = CompletedTurnContext(
            turn_id=turn.turn_id, user_text="ask", preface="notes: …", exchanges=(Exchange(calls=(call,)),), answer="said"
        )
        finish_turn(conn, TurnEnd(turn.turn_id, "completed", "said", "max_output", None, usage, bundle, LATER))
        return bundle, bundles(conn, turn.conversation_id), get_turn_by_run(conn, turn.run_id)

    bundle, stored, row = await state.run(story)
    assert stored == [bundle]
    assert (row.state, row.assistant_text, row.reason, row.error, row.usage, row.finished_at) == ("completed", "said", "max_output", None, usage, LATER)


async def test_a_failed_turn_says_why_and_has_no_answer(state: Database) -> None:
    row = await state.run(lambda conn: ended(conn, conversation(conn), "failed", "ask"))
    assert (row.state, row.user_text, row.assistant_text) == ("failed", "ask", None)
    assert row.error == TurnError("model_transport", "answering", 1500, "The connection to the model broke.")


async def test_only_completed_turns_enter_the_history(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        completed(conn, made, "one", "1")
        for kind in ("failed", "cancelled", "interrupted"):
            ended(conn, made, kind)
        completed(conn, made, "two", "2")
        admitted(conn, made, "three")
        return [one.user_text for one in bundles(conn, made)], [one.user_text for one in bundles(conn, made, newest=1)]

    assert await state.run(story) == (["one", "two"], ["two"])


async def test_the_last_reason_is_that_of_the_newest_completed_turn(state: Database) -> None:
    def story(conn):
        made, reasons = conversation(conn), []
        for kind, reason in (("failed", None), ("completed", "stop"), ("completed", "repetition_truncated"), ("cancelled", None), ("completed", "stop")):
            if kind != "completed":
                ended(conn, made, kind)
            else:
                turn = admitted(conn, made)
                bundle = CompletedTurnContext(turn_id=turn.turn_id, user_text=turn.user_text, answer="answer")
                finish_turn(conn, TurnEnd(turn.turn_id, kind, "answer", reason, None, Usage(), bundle, NOW))
            reasons.append(last_reason(conn, made))
        return reasons

    assert await state.run(story) == [None, "stop", "repetition_truncated", "repetition_truncated", "stop"]


@pytest.mark.parametrize("target", ["completed", "failed"])
async def test_an_answer_belongs_to_a_completed_turn_alone(state: Database, target: str) -> None:
    turn = await state.run(lambda conn: admitted(conn, conversation(conn)))
    answer = None if target == "completed" else "half an answer"
    with pytest.raises(IllegalMove):
        await state.run(lambda conn: finish_turn(conn, TurnEnd(turn.turn_id, target, answer, None, None, None, None, NOW)))
    assert [row.state for row in await state.read(unfinished_turns)] == ["running"]


async def test_a_turn_ends_once(state: Database) -> None:
    turn = await state.run(lambda conn: completed(conn, conversation(conn)))
    end = TurnEnd(turn.turn_id, "failed", None, None, None, None, None, LATER)
    with pytest.raises(IllegalMove):
        await state.run(lambda conn: finish_turn(conn, end))
    assert await state.read(lambda conn: get_turn_by_run(conn, turn.run_id)) == turn


async def test_unknown_turns_are_not_found(state: Database) -> None:
    end = TurnEnd("none", "failed", None, None, None, None, None, NOW)
    with pytest.raises(NotFound):
        await state.run(lambda conn: finish_turn(conn, end))
    with pytest.raises(NotFound):
        await state.run(lambda conn: admit_turn(conn, "none", Boundary("c", "none", "d", None, {})))
    with pytest.raises(NotFound):
        await state.run(lambda conn: begun(conn, "none"))
    assert await state.read(lambda conn: get_turn_by_run(conn, "none")) is None


@pytest.mark.parametrize("active", [begun, admitted])
async def test_a_conversation_has_one_active_turn(state: Database, active) -> None:
    def begin(conn):
        made = conversation(conn)
        active(conn, made)
        return made

    made = await state.run(begin)
    with pytest.raises(ConversationBusy):
        await state.run(lambda conn: begun(conn, made))


async def test_of_twenty_sends_at_once_one_begins(state: Database) -> None:
    made = await state.run(conversation)

    async def send(number: int) -> str:
        try:
            await state.run(lambda conn: begun(conn, made, f"text {number}"))
        except ConversationBusy:
            return "busy"
        return "begun"

    assert sorted(await asyncio.gather(*map(send, range(20)))) == ["begun"] + ["busy"] * 19
    turns, _ = await state.read(lambda conn: turn_page(conn, made, None, 32))
    assert len(turns) == 1


async def test_the_table_itself_refuses_a_second_active_turn(state: Database) -> None:
    turns = await state.run(lambda conn: [ended(conn, made := conversation(conn), "failed"), ended(conn, made, "failed")])

    def force(conn):
        for turn in turns:
            conn.execute("UPDATE turns SET state = 'running' WHERE turn_id = ?", (turn.turn_id,))

    with pytest.raises(Exception, match=r"UNIQUE constraint failed: turns\.owner"):
        await state.run(force)


async def test_the_same_request_gives_the_same_turn_also_after_it_ended(state: Database) -> None:
    request = new_id()

    def story(conn):
        made = conversation(conn)
        first = completed(conn, made, "send once", client_request_id=request)
        again = begun(conn, made, "send once", client_request_id=request)
        return first, again, find_by_request(conn, made, request, "send once"), len(turn_page(conn, made, None, 32)[0])

    first, again, found, count = await state.run(story)
    assert first == again == found
    assert count == 1


async def test_a_request_id_with_another_text_is_a_mismatch(state: Database) -> None:
    request = new_id()

    def begin(conn):
        made = conversation(conn)
        begun(conn, made, "one", client_request_id=request)
        return made

    made = await state.run(begin)
    with pytest.raises(IdempotencyMismatch):
        await state.run(lambda conn: begun(conn, made, "two", client_request_id=request))


async def test_request_ids_are_counted_per_conversation(state: Database) -> None:
    request = new_id()

    def story(conn):
        one, two = conversation(conn), conversation(conn)
        begun(conn, one, "text", client_request_id=request)
        return begun(conn, two, "text", client_request_id=request).conversation_id == two, find_by_request(conn, one, new_id(), "text")

    assert await state.run(story) == (True, None)


async def test_admission_needs_the_right_boundary_and_changes_nothing_without(state: Database) -> None:
    turn = await state.run(lambda conn: begun(conn, conversation(conn)))
    wrong = Boundary(turn.conversation_id, turn.turn_id, "d", "not the head", {})
    with pytest.raises(BoundaryConflict):
        await state.run(lambda conn: admit_turn(conn, turn.turn_id, wrong))
    assert [row.state for row in await state.read(unfinished_turns)] == ["preparing"]
    assert await state.read(lambda conn: head_boundary(conn, turn.conversation_id)) is None


async def test_unfinished_turns_are_those_preparing_or_running_oldest_first(state: Database) -> None:
    def story(conn):
        one, two = begun(conn, conversation(conn)), admitted(conn, conversation(conn))
        completed(conn, conversation(conn))
        ended(conn, conversation(conn), "interrupted")
        return [one.run_id, two.run_id], [(row.run_id, row.state) for row in unfinished_turns(conn)]

    (one, two), found = await state.run(story)
    assert found == [(one, "preparing"), (two, "running")]


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 65])
async def test_pages_give_every_turn_once_in_order(state: Database, count: int) -> None:
    def fill(conn):
        made = conversation(conn)
        for number in range(count):
            ended(conn, made, "cancelled", str(number))
        return made

    made = await state.run(fill)
    seen: list[str] = []
    before, sizes = None, []
    while True:
        turns, before = await state.read(lambda conn, at=before: turn_page(conn, made, at, 32))
        seen = [turn.user_text for turn in turns] + seen
        sizes.append(len(turns))
        if before is None:
            break
    assert seen == [str(number) for number in range(count)]
    assert sizes == ([32] * (count // 32) + [count % 32] if count % 32 or not count else [32] * (count // 32))


async def test_a_conversation_holds_a_bounded_number_of_turns(state: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_builder.storage.turns.TURNS_PER_CONVERSATION", 3)

    def fill(conn):
        made = conversation(conn)
        for _ in range(3):
            ended(conn, made, "failed")
        return made

    made = await state.run(fill)
    with pytest.raises(ConversationLimit, match="start a new one"):
        await state.run(lambda conn: begun(conn, made))


async def test_a_page_and_the_busy_check_use_indices(state: Database) -> None:
    def plans(conn):
        page = "SELECT l.position FROM conversation_turns l JOIN turns t ON t.key = l.turn WHERE l.conversation = 1 AND l.position < 5 ORDER BY l.position DESC"
        busy = "SELECT 1 FROM turns WHERE owner = 1 AND state IN ('preparing', 'running')"
        return [" / ".join(row[-1] for row in conn.execute(f"EXPLAIN QUERY PLAN {query}")) for query in (page, busy)]

    page, busy = await state.read(plans)
    assert page == "SEARCH l USING PRIMARY KEY (conversation=? AND position<?) / SEARCH t USING INTEGER PRIMARY KEY (rowid=?)"
    assert busy == "SEARCH turns USING INDEX one_active_turn (owner=?)"
