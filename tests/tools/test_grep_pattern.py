import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import GREP_CHUNK_CHARS
from agent_builder.tools.grep_pattern import parse_grep
from tests.support.capability import never


def place(pattern: str, line: str, *, regex: bool = True) -> int | None:
    return parse_grep(pattern, regex).find(line, never)


@pytest.mark.parametrize("pattern", ["html(json.data)", "a || b", "i++", "{ name", "\\", ".", "^$", "(a)\\1"])
def test_a_literal_means_its_characters(pattern: str) -> None:
    assert place(pattern, f"xx{pattern}yy", regex=False) == 2
    assert place(pattern, "other", regex=False) is None


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("html(", "a group"), ("a|b", "an alternative"), ("(a)\\1", "a group"), ("\\1", "a backreference"), ("x{2,3}", "a repetition"),
        ("(a+)+$", "a group"), ("a?a?aa$", "a repetition"), ("[a-a]+[a-a]+$", "a repetition"), ("a*", "a repetition"), ("[^]", "an empty set"), ("[a", "'[' without"),
        ("[]", "an empty set"), ("[b-a]", "a reversed range"), ("[[:alpha:]]", "a named class"), ("\\x41", "an escape"), ("a^b", "an anchor"),
        ("a$b", "an anchor"), ("x]", "']' without"), ("a\\", "an escape"), ("[\\q]", "an escape in a set"), ("(?i)a", "a group"),
    ],
)
def test_what_is_not_allowed_is_refused_by_its_name_with_a_way_out(pattern: str, what: str) -> None:
    with pytest.raises(FileRefused) as refused:
        parse_grep(pattern, regex=True)
    assert what in refused.value.sentence
    assert "literal" in refused.value.sentence


@pytest.mark.parametrize("regex", [True, False])
@pytest.mark.parametrize("pattern", ["", "a\nb", "a\r"])
def test_an_empty_or_broken_pattern_is_refused(pattern: str, regex: bool) -> None:
    with pytest.raises(FileRefused):
        parse_grep(pattern, regex)


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (".", "", None), (".", "x", 0), ("^$", "", 0), ("^$", "x", None), ("^ab", "abab", 0), ("^b", "ab", None), ("ab$", "abab", 2),
        ("b$", "ba", None), ("\\d\\d", "a1b22", 3), ("\\bto\\b", "tomato to", 7), ("[^0-9]x", "1x ax", 3), ("a\\.b", "axb a.b", 4),
        ("[a\\]]", "]", 0), ("[a-]", "-", 0), ("\\$", "a$", 1), ("é.", "aéb", 1), ("^abc$", "abc", 0), ("[[]x", "[x", 0),
    ],
)
def test_the_allowed_part_works_as_usual(pattern: str, line: str, found: int | None) -> None:
    assert place(pattern, line) == found


@given(st.lists(st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\w", "\\b"]), min_size=1, max_size=6).map("".join), st.integers(-8, 8))
def test_a_match_across_the_pieces_of_a_long_line_is_found_where_re_finds_it(pattern: str, shift: int) -> None:
    line = "-" * (GREP_CHUNK_CHARS + shift) + "abba ab" + "-" * GREP_CHUNK_CHARS
    expected = re.search(pattern, line)
    assert place(pattern, line) == (expected.start() if expected else None)


def test_a_search_stops_between_two_pieces_when_the_time_is_over() -> None:
    line = "-" * GREP_CHUNK_CHARS * 3 + "x"
    assert parse_grep("x", regex=True).find(line, lambda: True) is None


@given(st.text("ab.[]^-\\d$|*+?(){}1w", max_size=10))
def test_whatever_is_accepted_is_a_valid_expression_of_fixed_width(pattern: str) -> None:
    try:
        parsed = parse_grep(pattern, regex=True)
    except FileRefused:
        return
    assert parsed.body is not None
    found = parsed.body.search("ab1. ^-$\\w[]" * 3)
    assert found is None or found.end() - found.start() == parsed.width
