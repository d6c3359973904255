"""Length-bounded JSON lines, the IPC wire format: one JSON object in UTF-8 and one line feed per frame."""

import json

from agent_builder.protocol.limits import IPC_FRAME_BYTES


class FramingError(Exception):
    """A frame that is too long, not UTF-8, not one JSON object, or has a repeated key."""


def encode_frame(message: dict[str, object]) -> bytes:
    """One line with its line feed. Raises FramingError above IPC_FRAME_BYTES."""
    line = json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    if len(line) > IPC_FRAME_BYTES:
        raise FramingError("frame too long")
    return line


def decode_frame(line: bytes) -> dict[str, object]:
    """The object in one line (with or without its line feed). Raises FramingError."""
    if len(line) > IPC_FRAME_BYTES:
        raise FramingError("frame too long")
    try:
        message = json.loads(line.decode(), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FramingError("not a JSON object") from error
    if not isinstance(message, dict):
        raise FramingError("not a JSON object")
    return message


class LineBuffer:
    """Collects bytes that arrive in any cut and gives whole lines; never holds more than one frame's worth."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines completed by `data`, without line feeds. Raises FramingError when a line outgrows the bound."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) >= IPC_FRAME_BYTES or any(len(line) >= IPC_FRAME_BYTES for line in lines):
            raise FramingError("frame too long")
        return lines

    @property
    def pending(self) -> int:
        """Bytes of an unfinished line."""
        return len(self._rest)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("repeated key")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
