from hypothesis import given
from hypothesis import strategies as st

from agent_builder.protocol.limits import READ_BYTES, READ_LINES, SHOWN_PATH_BYTES
from agent_builder.tools.cuts import Part, clip, count_lines, part_around, part_from_line, shown_path

TEXTS = st.lists(st.sampled_from(["a", "é", "中", "😀", "\n", "\r\n", "x" * 300, "中" * 1500]), max_size=60).map("".join)


def test_lines_are_counted_with_and_without_a_last_line_feed() -> None:
    assert [count_lines(data) for data in (b"", b"a", b"a\n", b"a\nb", b"\n\n")] == [0, 1, 1, 2, 2]


def test_a_clipped_text_ends_with_the_mark_within_the_bound() -> None:
    assert clip("中文字", 9) == "中文字"
    assert clip("中文字", 8) == "中…"


def test_a_read_takes_exactly_4096_bytes_and_256_lines() -> None:
    assert part_from_line(b"x" * READ_BYTES, 1, READ_LINES) == Part(0, READ_BYTES, 1, 1, True)
    assert part_from_line(b"x" * (READ_BYTES + 1), 1, READ_LINES) == Part(0, READ_BYTES, 1, 1, False)
    assert part_from_line(b"x\n" * READ_LINES, 1, READ_LINES) == Part(0, 2 * READ_LINES, 1, READ_LINES, True)
    assert part_from_line(b"x\n" * (READ_LINES + 1), 1, READ_LINES) == Part(0, 2 * READ_LINES, 1, READ_LINES, True)


def test_a_read_behind_the_last_line_is_nothing() -> None:
    assert part_from_line(b"a\nb\n", 2, 9) == Part(2, 4, 2, 2, True)
    assert part_from_line(b"a\nb\n", 3, 9) is None
    assert part_from_line(b"", 1, 9) == Part(0, 0, 1, 1, True)
    assert part_from_line(b"", 2, 9) is None


def test_a_long_line_is_cut_at_a_code_point() -> None:
    part = part_from_line("中".encode() * READ_BYTES, 1, READ_LINES)
    assert part is not None
    assert part.end == READ_BYTES - READ_BYTES % 3


@given(TEXTS, st.integers(1, 70), st.integers(1, READ_LINES))
def test_every_part_is_within_bounds_and_valid_text(text: str, first: int, most: int) -> None:
    data = text.encode()
    part = part_from_line(data, first, most)
    if part is None:
        assert first > max(1, count_lines(data))
        return
    shown = data[part.start : part.end]
    assert len(shown) <= READ_BYTES
    assert shown.count(b"\n") <= most
    shown.decode()
    assert data.count(b"\n", 0, part.start) == first - 1


@given(TEXTS)
def test_reading_on_line_by_line_shows_every_byte_of_a_file_with_lines_that_fit(text: str) -> None:
    data = text.encode()
    seen, line = b"", 1
    while (part := part_from_line(data, line, READ_LINES)) is not None and part.end > part.start:
        if not part.whole_lines:
            return
        seen += data[part.start : part.end]
        line = part.last_line + 1
    assert seen == data


@given(TEXTS, st.integers(0, 10_000), st.integers(0, READ_BYTES))
def test_the_part_around_a_place_contains_it(text: str, start: int, size: int) -> None:
    start = min(start, len(text))
    first = len(text[:start].encode())
    wanted = (first, first + len(text[start : start + size].encode()))
    part = part_around(text.encode(), wanted)
    assert part.start <= wanted[0]
    assert part.end >= min(wanted[1], wanted[0] + READ_BYTES - 3)
    text.encode()[part.start : part.end].decode()
    assert part.end - part.start <= READ_BYTES


def test_a_part_within_a_long_text_has_at_most_256_lines() -> None:
    data = b"head\n" + b"ab\r\n" * 1300
    part = part_around(data, (5, len(data)))
    assert (part.start, data[part.start : part.end].count(b"\n")) == (5, READ_LINES)


def test_a_shown_path_is_bounded_in_bytes_and_keeps_its_end() -> None:
    assert shown_path("a" * SHOWN_PATH_BYTES) == "a" * SHOWN_PATH_BYTES
    assert shown_path("b" + "a" * SHOWN_PATH_BYTES) == "…" + "a" * (SHOWN_PATH_BYTES - 3)
    assert len(shown_path("中" * SHOWN_PATH_BYTES).encode()) <= SHOWN_PATH_BYTES
