import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.protocol.limits import CLOSEST_LINES
from agent_builder.tools.edit_text import closest_lines, occurrences, replace, with_endings_of
from tests.support.capability import never

PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", "é", "\ufeff", "$&", "\\1"]), max_size=12).map("".join)


def edited(text: str, old: str, new: str) -> str:
    (where,) = occurrences(text, old)
    return replace(text, old, new, where).text


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("alpha\nbeta", "ALPHA\nBETA", "ALPHA\r\nBETA\r\ngamma\r\n"),
        ("alpha\nbeta\n", "ALPHA\nBETA\n", "ALPHA\r\nBETA\r\ngamma\r\n"),
        ("alpha\r\nbeta", "ALPHA\r\nBETA", "ALPHA\r\nBETA\r\ngamma\r\n"),
        ("beta", "b1\nb2", "alpha\r\nb1\r\nb2\r\ngamma\r\n"),
        ("gamma\n", "gamma\ndelta\n", "alpha\r\nbeta\r\ngamma\r\ndelta\r\n"),
        ("beta\n", "", "alpha\r\ngamma\r\n"),
    ],
)
def test_a_snippet_with_line_feeds_edits_a_crlf_file_and_gets_its_endings(old: str, new: str, after: str) -> None:
    assert edited("alpha\r\nbeta\r\ngamma\r\n", old, new) == after


def test_a_snippet_with_crlf_edits_a_file_with_line_feeds() -> None:
    assert edited("alpha\nbeta\n", "alpha\r\nbeta", "A\r\nB") == "A\nB\n"


def test_in_a_mixed_file_only_the_lines_of_the_edit_change() -> None:
    assert edited("a\r\nb\nc\r\nd\n", "b\nc", "B\nC") == "a\r\nB\nC\r\nd\n"
    assert edited("a\r\nb\nc\r\nd\n", "a\nb", "A\nB") == "A\r\nB\nc\r\nd\n"


def test_a_bom_stays_in_its_place() -> None:
    assert edited("\ufeff# 标题\nhello\n", "# 标题", "# 新标题") == "\ufeff# 新标题\nhello\n"
    assert edited("\ufeff# 标题\nhello\n", "\ufeff# 标题", "# 新标题") == "\ufeff# 新标题\nhello\n"


LITERAL = "$& $1 $$ $' $` \\1 \\g<0> \\n \\\\ %s {0} ${x} \\u4e2d"


def test_the_replacement_is_literal() -> None:
    assert edited('log("done");\n', 'log("done");', LITERAL) == LITERAL + "\n"


@pytest.mark.parametrize(
    ("text", "old", "count"),
    [("aaa\n", "aa", 2), ("a.b.a.b.a\n", "a.b.a", 2), ("x = 1\nx = 1\n", "x = 1", 2), ("abc", "", 0), ("abc", "d", 0), ("a\r\nb a\nb", "a\nb", 2)],
)
def test_occurrences_are_counted_with_overlaps_and_whatever_the_line_endings(text: str, old: str, count: int) -> None:
    assert len(occurrences(text, old)) == count


def test_a_missing_last_line_feed_is_forgiven_and_preserved() -> None:
    assert edited("one\ntwo", "two\n", "2\n") == "one\n2"
    assert edited("one\r\ntwo", "two\n", "2\nthree\n") == "one\r\n2\r\nthree"
    assert occurrences("two\none", "two \n") == []


def test_whole_new_content_keeps_the_bom_and_pure_crlf() -> None:
    assert with_endings_of("\ufeffa\r\nb\r\n", "x\ny\n") == "\ufeffx\r\ny\r\n"
    assert with_endings_of("a\r\nb\n", "x\ny\n") == "x\ny\n"
    assert with_endings_of("a\nb\n", "x\r\ny\r\n") == "x\r\ny\r\n"
    assert with_endings_of("", "x\n") == "x\n"


def test_the_closest_lines_come_with_their_numbers_in_order() -> None:
    text = "alpha\nfix teh word\nunrelated\nfix the ward\n"
    assert closest_lines(text, "fix the word", never) == [(2, "fix teh word"), (4, "fix the ward")]
    assert closest_lines(text, "zzzz", never) == []
    assert len(closest_lines("same line here\n" * 50, "same line here too", never)) == CLOSEST_LINES


def test_the_closest_lines_are_those_of_what_was_compared_before_time_was_up() -> None:
    looks = iter([False, False, True])
    assert closest_lines("fix teh word\nalpha\nfix the word\n", "fix the word", lambda: next(looks)) == [(1, "fix teh word")]


@given(PIECES, PIECES, PIECES, PIECES)
def test_an_edit_changes_only_the_occurrence(before: str, old: str, after: str, new: str) -> None:
    text = before + old + after
    found = occurrences(text, old)
    if len(found) != 1:
        return
    done = replace(text, old, new, found[0])
    plain = [part.replace("\r\n", "\n") for part in (done.text, text[: found[0].start], done.new, text[found[0].end :])]
    assert done.text == text[: found[0].start] + done.new + text[found[0].end :]
    assert done.old == text[found[0].start : found[0].end]
    assert plain[0].endswith(plain[3])
    assert done.text.startswith("\ufeff") or not text.startswith("\ufeff")


@given(st.lists(st.sampled_from(["a", "b", "ab", "é"]), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_a_file_with_one_kind_of_ending_keeps_it(lines: list[str], ending: str) -> None:
    text = ending.join(lines) + ending
    found = occurrences(text, lines[0] + "\n")
    if len(found) == 1:
        after = replace(text, lines[0] + "\n", "x\r\ny\nz\n", found[0]).text
        assert after.count("\n") == after.count("\r\n") if ending == "\r\n" else "\r" not in after
