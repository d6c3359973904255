"""Lines come out whole wherever the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.llm.ndjson import LineSplitter, LineTooLong


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(at)]


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30)), st.lists(st.integers(0, 5000)), st.booleans())
def test_lines_are_the_same_at_any_cut(lines: list[str], places: list[int], ended: bool) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ended else b"")
    splitter, found = LineSplitter(), []
    for piece in cut(data, places):
        found += splitter.feed(piece)
    found += splitter.finish()
    assert found == [line.encode() for line in lines if line.encode().strip()]


def test_nothing_but_a_line_feed_ends_a_line() -> None:
    odd = "a\u0085b\u2028c\rd\x0be\x0c".encode()
    assert LineSplitter().feed(odd + b"\n") == [odd]


@pytest.mark.parametrize("pieces", [[b"x" * 10 + b"\n"], [b"x" * 5, b"x" * 5, b"\n"], [b"y\n" + b"x" * 10]])
def test_a_line_of_exactly_the_bound_is_taken(pieces: list[bytes]) -> None:
    splitter = LineSplitter(10)
    found = [line for piece in pieces for line in splitter.feed(piece)]
    assert [*found, *splitter.finish()] in ([b"x" * 10], [b"y", b"x" * 10])


@pytest.mark.parametrize("pieces", [[b"x" * 11 + b"\n"], [b"x" * 5, b"x" * 6], [b"y\n" + b"x" * 11], [b"a\n" + b"x" * 11 + b"\n"]])
def test_a_longer_line_is_refused_before_its_end(pieces: list[bytes]) -> None:
    splitter = LineSplitter(10)
    with pytest.raises(LineTooLong):
        for piece in pieces:
            splitter.feed(piece)
