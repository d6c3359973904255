"""Cutting text at byte bounds, and the parts of a file that one answer can show."""

from dataclasses import dataclass

from agent_builder.protocol.limits import READ_BYTES, READ_LINES, SHOWN_PATH_BYTES

_CONTINUATION = 0b1100_0000, 0b1000_0000  # mask and value of the bytes inside a code point
_LINES_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes start..end of a file; lines count from 1. `whole_lines` is false where a line was too long to be shown whole."""

    start: int
    end: int
    first_line: int
    last_line: int
    whole_lines: bool


def clip(text: str, size: int, mark: str = "…") -> str:
    """At most `size` bytes; a text that was cut ends with the mark."""
    data = text.encode()
    if len(data) <= size:
        return text
    return data[: size - len(mark.encode())].decode(errors="ignore") + mark


def counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def shown_path(path: str) -> str:
    """The end of a long path: names tell more than the way to them."""
    data = path.encode()
    mark = "…"
    return path if len(data) <= SHOWN_PATH_BYTES else mark + data[len(mark.encode()) - SHOWN_PATH_BYTES :].decode(errors="ignore")


def count_lines(data: bytes) -> int:
    """A last line without a line feed counts."""
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def line_at(data: bytes, place: int) -> int:
    """The number of the line that byte `place` belongs to."""
    return data.count(b"\n", 0, place) + 1


def part_from_line(data: bytes, first_line: int, max_lines: int) -> Part | None:
    """What one read shows from `first_line` on; None behind the last line."""
    start = _start_of_line(data, first_line)
    if start is None:
        return None
    return _part(data, start, first_line, max_lines)


def part_around(data: bytes, wanted: tuple[int, int]) -> Part:
    """What one read can show of the text at `wanted` and some lines around it: the whole file if that fits."""
    whole = _part(data, 0, 1, READ_LINES)
    if whole.end == len(data):
        return whole
    for lines_before in (_LINES_BEFORE, 0):
        first = max(1, line_at(data, wanted[0]) - lines_before)
        part = _part(data, _start_of_line(data, first) or 0, first, READ_LINES)
        if part.end >= wanted[1]:
            return part
    end = min(_code_point_end(data, min(len(data), wanted[0] + READ_BYTES)), _end_of_lines(data, wanted[0], READ_LINES))
    return Part(wanted[0], end, line_at(data, wanted[0]), line_at(data, max(wanted[0], end - 1)), False)


def _part(data: bytes, start: int, first_line: int, max_lines: int) -> Part:
    end, line = start, first_line
    for _ in range(max_lines):
        next_end = _end_of_line(data, end)
        if next_end - start > READ_BYTES or next_end == end:
            break
        end, line = next_end, line + 1
    if end > start or start == len(data):
        return Part(start, end, first_line, max(first_line, line - 1), True)
    return Part(start, _code_point_end(data, start + READ_BYTES), first_line, first_line, False)


def _start_of_line(data: bytes, line: int) -> int | None:
    place = 0
    for _ in range(line - 1):
        found = data.find(b"\n", place)
        if found < 0:
            return None
        place = found + 1
    return place if place < len(data) or line == 1 else None


def _end_of_line(data: bytes, place: int) -> int:
    found = data.find(b"\n", place)
    return len(data) if found < 0 else found + 1


def _end_of_lines(data: bytes, place: int, count: int) -> int:
    for _ in range(count):
        place = _end_of_line(data, place)
    return place


def _code_point_end(data: bytes, place: int) -> int:
    mask, inside = _CONTINUATION
    while 0 < place < len(data) and data[place] & mask == inside:
        place -= 1
    return place
