"""Lines of an NDJSON stream. A line ends at 0x0A and nowhere else: U+0085, U+2028 and CR may stand inside texts."""

from agent_builder.protocol.limits import NDJSON_LINE_BYTES


class LineTooLong(ValueError):
    """A line has more than `limit` bytes."""


class LineSplitter:
    """Takes bytes cut anywhere, gives whole lines without their line feed; blank lines are left out."""

    def __init__(self, limit: int = NDJSON_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Raises LineTooLong."""
        if b"\n" not in data:
            self._keep(data)
            return []
        first, *rest = data.split(b"\n")
        self._keep(first)
        lines = [b"".join(self._parts), *rest[:-1]]
        self._parts, self._size = [], 0
        if any(len(line) > self._limit for line in lines):
            raise LineTooLong
        self._keep(rest[-1])
        return [line for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """What stands behind the last line feed, if anything."""
        rest = b"".join(self._parts)
        return [rest] if rest.strip() else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise LineTooLong
        if part:
            self._parts.append(part)
