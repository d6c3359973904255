"""The repetition guard finds endless cycles, and only those."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_builder.llm.repetition import RepetitionGuard, repeated_chars
from agent_builder.protocol.limits import (
    REPETITION_CHECK_BYTES,
    REPETITION_COPIES,
    REPETITION_CYCLE_MAX_BYTES,
    REPETITION_TOTAL_BYTES,
)

PASSAGE = "大连是一座滨海城市，经济与文化交流频繁，是重要的工业和旅游基地。"


def unlike(size: int) -> str:
    return "".join(f"{number} " for number in range(size))[:size]


def fed(text: str, size: int) -> str | None:
    """What is kept of `text`, fed in pieces of `size`; None when the guard lets all of it pass."""
    guard, kept = RepetitionGuard(), ""
    for at in range(0, len(text), size):
        piece = text[at : at + size]
        keep = guard.feed(piece)
        if keep is not None:
            return kept + piece[:keep]
        kept += piece
    return None


@pytest.mark.parametrize("size", [1, 3, 5, 64, 100_000])
@pytest.mark.parametrize("cycle", [PASSAGE, "S", "\n", "x" * 31 + "y", "z" * 511 + "y", "🙂 "])
def test_endless_repetition_is_found(cycle: str, size: int) -> None:
    start = unlike(1000)
    kept = fed(start + cycle * (12_000 // len(cycle.encode())), size)
    assert kept is not None
    assert kept.startswith(start + cycle)
    assert len(kept.encode()) <= 1000 + REPETITION_COPIES * max(len(cycle.encode()), REPETITION_TOTAL_BYTES) + REPETITION_CHECK_BYTES


def test_in_one_piece_only_the_first_copy_is_kept() -> None:
    assert fed("Once: " + PASSAGE * 100, 100_000) == "Once: " + PASSAGE


@pytest.mark.parametrize("text", [
    unlike(12_000), "a" * (REPETITION_TOTAL_BYTES - 1) + unlike(100), unlike(600) * 20, PASSAGE * 2 + unlike(2000),
    "\n".join(f"| row {number} | {'-' * 40} |" for number in range(200)),
])
def test_ordinary_text_passes(text: str) -> None:
    for size in (1, 7, 64, 100_000):
        assert fed(text, size) is None


def test_three_copies_are_needed() -> None:
    cycle = unlike(200)
    assert repeated_chars(cycle * 2) is None
    assert repeated_chars(cycle * 3) == 400


def test_all_copies_together_must_reach_the_total() -> None:
    cycle = unlike(32)
    assert repeated_chars(cycle * 15) is None
    assert repeated_chars(cycle * 16) == REPETITION_TOTAL_BYTES - 32


@pytest.mark.parametrize(("length", "found"), [(31, True), (32, True), (REPETITION_CYCLE_MAX_BYTES, True), (REPETITION_CYCLE_MAX_BYTES + 1, False)])
def test_the_cycle_has_bounds(length: int, found: bool) -> None:
    cycle = unlike(length - 1) + "#"  # 31 bytes repeat as 62 too
    assert (repeated_chars((cycle * 40)[-2048:]) is not None) == found


@given(st.text(max_size=80), st.integers(1, 40))
def test_whatever_is_cut_is_cut_between_characters_and_was_a_repetition(cycle: str, size: int) -> None:
    assume(cycle and not any("\ud800" <= char <= "\udfff" for char in cycle))
    text = unlike(300) + cycle * 200
    kept = fed(text, size)
    assert kept is not None or len(cycle.encode()) * 200 < REPETITION_TOTAL_BYTES + REPETITION_CHECK_BYTES
    assert kept is None or text.startswith(kept)
