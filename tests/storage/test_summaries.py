import pytest

from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.limits import SUMMARIES_PER_CONVERSATION
from agent_builder.storage.database import Database
from agent_builder.storage.summaries import SummaryRow, get_summary, latest_summary, put_summary
from tests.support.stored import NOW, conversation


def summary(conversation_id: str, number: int, text: str = "text") -> SummaryRow:
    parent = f"d-{number - 1}" if number else None
    return SummaryRow(conversation_id, f"d-{number}", parent, number + 1, text, "semantic-summary-v2", "model", NOW)


async def test_a_summary_is_found_by_its_source_and_the_last_one_without(state: Database) -> None:
    def story(conn):
        made, other = conversation(conn), conversation(conn)
        for number in range(3):
            put_summary(conn, summary(made, number))
        put_summary(conn, summary(other, 7))
        return made, get_summary(conn, made, "d-1"), latest_summary(conn, made), get_summary(conn, made, "d-7"), latest_summary(conn, conversation(conn))

    made, found, latest, foreign, none = await state.run(story)
    assert (found, latest, foreign, none) == (summary(made, 1), summary(made, 2), None, None)


async def test_the_same_source_is_summarised_once(state: Database) -> None:
    def story(conn):
        made = conversation(conn)
        put_summary(conn, summary(made, 1, "old"))
        put_summary(conn, summary(made, 1, "new"))
        return get_summary(conn, made, "d-1").text, conn.execute("SELECT count(*) FROM summaries").fetchone()[0]

    assert await state.run(story) == ("new", 1)


async def test_the_newest_summaries_of_a_conversation_are_kept(state: Database) -> None:
    def story(conn):
        made, other = conversation(conn), conversation(conn)
        put_summary(conn, summary(other, 0))
        for number in range(SUMMARIES_PER_CONVERSATION + 1):
            put_summary(conn, summary(made, number))
        return get_summary(conn, made, "d-0"), get_summary(conn, made, "d-1") is not None, latest_summary(conn, other) is not None

    assert await state.run(story) == (None, True, True)


async def test_an_unknown_conversation_has_no_summary(state: Database) -> None:
    with pytest.raises(NotFound):
        await state.run(lambda conn: put_summary(conn, summary("none", 0)))
