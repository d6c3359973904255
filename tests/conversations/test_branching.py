from pathlib import Path

import pytest

from agent_builder.conversations.branching import branch
from agent_builder.protocol.errors import ConversationBusy, InvalidRequest, NotFound
from agent_builder.protocol.ids import is_id
from agent_builder.storage.conversations import delete_conversation, list_conversations
from agent_builder.storage.turns import bundles
from tests.support.stored import FixedClock, begun, completed, conversation, open_state


async def test_a_branch_goes_on_from_the_completed_end_under_a_title_of_its_own(tmp_path: Path) -> None:
    state = await open_state(tmp_path)

    def fill(conn):
        made = conversation(conn, "Plan")
        completed(conn, made, "one", "1")
        return made

    made = await state.run(fill)
    one = await branch(state, made, FixedClock())
    two = await branch(state, one.conversation_id, FixedClock())
    await state.run(lambda conn: (completed(conn, two.conversation_id, "two", "2"), delete_conversation(conn, made), delete_conversation(conn, one.conversation_id)))
    history = await state.read(lambda conn: [(bundle.user_text, bundle.answer) for bundle in bundles(conn, two.conversation_id)])
    await state.close()
    assert (one.title, two.title) == ("Plan (2)", "Plan (3)")
    assert is_id(one.conversation_id)
    assert history == [("one", "1"), ("two", "2")]


async def test_what_cannot_be_branched_leaves_no_conversation_behind(tmp_path: Path) -> None:
    state = await open_state(tmp_path)

    def fill(conn):
        empty, busy = conversation(conn), conversation(conn)
        completed(conn, busy)
        begun(conn, busy)
        return empty, busy

    empty, busy = await state.run(fill)
    for source, error in ((empty, InvalidRequest), (busy, ConversationBusy), ("none", NotFound)):
        with pytest.raises(error):
            await branch(state, source, FixedClock())
    rows = await state.read(list_conversations)
    await state.close()
    assert {row.conversation_id for row in rows} == {empty, busy}
