"""What is asked of a model that condenses, and what is accepted."""

import pytest

from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.context.inputs import Summary
from agent_builder.context.instructions import summary_rules
from agent_builder.context.parts import source_digest
from agent_builder.context.summary import accepted, covers, decoded, summary_request, summary_words
from tests.support.plans import EXACT_COUNTER, a_call, a_turn

TURNS = (a_turn(1, "My key word is 青竹-42, keep it."), a_turn(2, exchanges=(a_call(),)))


def test_the_rules_stand_alone_in_the_system_role_and_the_conversation_is_data():
    request = summary_request(TURNS, None, 4000, EXACT_COUNTER)
    assert [m["role"] for m in request.messages] == ["system", "user"]
    assert request.messages[0]["content"] == summary_rules(150)
    assert request.tools == ()
    content = request.messages[1]["content"]
    assert content.startswith("--- conversation ")
    assert "User: My key word is 青竹-42, keep it. 1\nAssistant: answer 1\nUser: question 2\nTool: file/read_text ok\nAssistant: answer 2" in content
    assert "file text" not in content


def test_earlier_notes_are_carried_on():
    content = summary_request(TURNS, "The key word is 青竹-42.", 4000, EXACT_COUNTER).messages[1]["content"]
    assert content.index("The key word is 青竹-42.") < content.index("--- conversation ")
    assert content.startswith("--- notes so far ")


def test_messages_are_cut_until_the_request_fits_and_otherwise_there_is_none():
    turns = tuple(a_turn(number, "word " * 400, "word " * 400) for number in range(6))
    sizes = [summary_request(turns, None, room, EXACT_COUNTER).admission_tokens for room in (20000, 6000, 3000, 1500)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4
    assert all(size <= room for size, room in zip(sizes, (20000, 6000, 3000, 1500), strict=True))
    assert summary_request(turns, None, 600, EXACT_COUNTER) is None


def test_a_small_window_asks_for_fewer_words():
    assert [summary_words(budget) for budget in (28672, 2400, 2384, 1792)] == [150, 150, 149, 112]
    assert "at most 112 words" in summary_request(TURNS, None, 4000, EXACT_COUNTER, 112).messages[0]["content"]


def test_an_empty_or_too_long_answer_is_no_summary():
    assert accepted(" notes \n", 7168, EXACT_COUNTER) == "notes"
    assert accepted("  \n", 7168, EXACT_COUNTER) is None
    assert accepted("n" * 6144, 262144, BYTES_COUNTER) == "n" * 6144
    assert accepted("n" * 6145, 262144, BYTES_COUNTER) is None
    assert accepted("n" * 4000, 7168, EXACT_COUNTER) is None


def test_notes_speak_only_of_the_turns_they_were_made_from():
    assert covers(TURNS, 1, source_digest(TURNS[:1]))
    assert not covers(TURNS, 2, source_digest(TURNS[:1]))
    assert not covers(TURNS[:1], 2, source_digest(TURNS))
    assert not covers(TURNS, 0, source_digest(()))
    changed = (TURNS[0].model_copy(update={"answer": "other"}), TURNS[1])
    assert not covers(changed, 2, source_digest(TURNS))


def test_the_old_kind_is_only_read():
    assert decoded("semantic-summary-v2", "text", 3) == Summary(3, "text")
    assert decoded("semantic-summary-v1", '{"version": 1, "summary": "old"}', 3) == Summary(3, "old")


@pytest.mark.parametrize(("kind", "text"), [
    ("semantic-summary-v1", '{"version": 2, "summary": "old"}'), ("semantic-summary-v1", '{"version": 1, "summary": "old", "more": 1}'),
    ("semantic-summary-v1", '{"version": 1, "summary": 7}'), ("semantic-summary-v1", "text"), ("semantic-summary-v3", "text"),
])
def test_anything_else_is_refused(kind, text):
    with pytest.raises(ValueError, match=r"summary|Expecting"):
        decoded(kind, text, 1)
