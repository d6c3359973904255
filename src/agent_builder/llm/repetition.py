"""The repetition guard: finds an answer that has begun to repeat one passage for ever. Pure and incremental."""

from agent_builder.protocol.limits import (
    REPETITION_CHECK_BYTES,
    REPETITION_COPIES,
    REPETITION_CYCLE_MAX_BYTES,
    REPETITION_CYCLE_MIN_BYTES,
    REPETITION_TOTAL_BYTES,
    REPETITION_WINDOW_CHARS,
)

REPETITION_MARKER = "[回答因重复死循环被截断；后续忽略重复尾部。]"


class RepetitionGuard:
    """Looks, every 64 accepted bytes, for a suffix of the last 2048 code points that is one cycle of 32 to 512 bytes, at
    least three times over and 512 bytes in all."""

    def __init__(self) -> None:
        self._tail = ""
        self._unchecked = 0

    def feed(self, text: str) -> int | None:
        """None while all is well. Otherwise how many characters of `text` are to be kept: those before the second copy
        of the cycle, as far as they stand in `text`. The guard is used up then."""
        start = 0
        while start < len(text):
            stop = self._next_check(text, start)
            self._accept(text[start:stop])
            start = stop
            if self._unchecked >= REPETITION_CHECK_BYTES:
                self._unchecked = 0
                repeated = repeated_chars(self._tail)
                if repeated is not None:
                    return max(0, stop - repeated)
        return None

    def _next_check(self, text: str, start: int) -> int:
        """The end of the piece after which the next look is due, in whole characters."""
        missing = REPETITION_CHECK_BYTES - self._unchecked
        stop = start + missing
        if text[start:stop].isascii():
            return min(stop, len(text))
        size, stop = 0, start
        while stop < len(text) and size < missing:
            size += len(text[stop].encode())
            stop += 1
        return stop

    def _accept(self, piece: str) -> None:
        self._unchecked += len(piece.encode())
        self._tail = (self._tail + piece)[-REPETITION_WINDOW_CHARS:]


def repeated_chars(tail: str) -> int | None:
    """How many characters at the end of `tail` repeat a cycle, its first copy not counted; None without such a cycle."""
    data = tail.encode()
    cycle = _cycle(data)
    if cycle is None:
        return None
    size = cycle
    while size < len(data) and data[-size - 1] == data[-size - 1 + cycle]:
        size += 1
    return len(data[len(data) - size + cycle:].decode(errors="ignore"))


def _cycle(data: bytes) -> int | None:
    """The shortest fitting cycle. Its end must stand, as a whole, one cycle earlier too: that finds the few candidates."""
    least = REPETITION_CYCLE_MIN_BYTES
    key, end = data[-least:], len(data) - 1
    while len(key) == least:
        at = data.rfind(key, 0, end)
        cycle = len(data) - least - at
        if at < 0 or cycle > REPETITION_CYCLE_MAX_BYTES:
            return None
        repeated = max((REPETITION_COPIES - 1) * cycle, REPETITION_TOTAL_BYTES - cycle)
        if cycle >= least and repeated + cycle <= len(data) and data[-repeated:] == data[-repeated - cycle:-cycle]:
            return cycle
        end = at + least - 1
    return None
