from hypothesis import given
from hypothesis import strategies as st

from agent_builder.protocol.messages import Attachment
from agent_builder.tools.reads import ReadRecord

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair))), max_size=8)


def covered(record: ReadRecord, digest: str, size: int) -> set[int]:
    return {place for place in range(size) if record.covers("a", digest, (place, place + 1))}


def test_nothing_was_read_at_first() -> None:
    assert not ReadRecord().covers("a", "d", (0, 1))
    assert ReadRecord().first_gap("a", "d", (0, 5)) == 0
    assert ReadRecord().first_gap("a", "d", (0, 0)) is None


def test_neighbouring_reads_join() -> None:
    record = ReadRecord()
    record.add("a", "d", (0, 10))
    record.add("a", "d", (10, 20))
    assert record.covers("a", "d", (5, 15))
    assert not record.covers("a", "d", (5, 21))
    assert record.first_gap("a", "d", (0, 25)) == 20
    assert record.first_gap("a", "d", (5, 20)) is None
    assert record.first_gap("a", "d", (22, 25)) == 22


def test_another_version_counts_as_not_read() -> None:
    record = ReadRecord()
    record.add("a", "d", (0, 10))
    assert not record.covers("a", "e", (0, 1))
    record.add("a", "e", (0, 1))
    assert not record.covers("a", "d", (0, 10))


def test_attached_text_counts_as_read() -> None:
    record = ReadRecord.from_attachments([Attachment(path="a", bytes=100, digest="d", truncated=True, text="é" * 10)])
    assert record.covers("a", "d", (0, 20))
    assert not record.covers("a", "d", (0, 21))


@given(RANGES)
def test_covered_is_exactly_what_was_added(ranges: list[tuple[int, int]]) -> None:
    record = ReadRecord()
    for one in ranges:
        record.add("a", "d", one)
    assert covered(record, "d", 61) == {place for start, end in ranges for place in range(start, end)}


@given(RANGES, st.integers(0, 60), st.integers(0, 20), st.integers(0, 20))
def test_after_an_edit_the_same_text_around_it_and_the_new_text_are_known(
    ranges: list[tuple[int, int]], start: int, old: int, new: int
) -> None:
    record = ReadRecord()
    for one in ranges:
        record.add("a", "d", one)
    before = covered(record, "d", 61)
    record.edited("a", "d", "e", (start, start + old), new)
    expected = {place for place in before if place < start} | set(range(start, start + new))
    expected |= {place + new - old for place in before if place >= start + old}
    assert covered(record, "e", 120) == expected
