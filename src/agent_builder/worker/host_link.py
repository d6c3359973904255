"""The Worker's end of the IPC: blocking frames over stdin and stdout, with bounds on both sides."""

import os
from collections.abc import Iterator

from agent_builder.protocol.frames import HostFrame, WorkerFrame, parse_host, to_message
from agent_builder.protocol.framing import FramingError, LineBuffer, decode_frame, encode_frame
from agent_builder.protocol.limits import IPC_FRAME_BYTES, IPC_TOTAL_BYTES, IPC_TOTAL_FRAMES


class HostLink:
    def __init__(self, read_from: int, write_to: int) -> None:
        self._read_from = read_from
        self._write_to = write_to
        self._sent_frames = 0
        self._sent_bytes = 0

    def frames(self) -> Iterator[HostFrame]:
        """The host's frames until it closes the pipe. Raises FramingError and FrameError for what is none; an unfinished
        line at the end is dropped, for the host is gone."""
        for line in self.lines():
            yield parse_host(decode_frame(line))

    def lines(self) -> Iterator[bytes]:
        buffer = LineBuffer()
        while data := os.read(self._read_from, IPC_FRAME_BYTES):
            yield from buffer.feed(data)

    def send(self, frames: list[WorkerFrame]) -> None:
        """Raises FramingError beyond the totals of a Run, BrokenPipeError when the host is gone."""
        for frame in frames:
            self.send_line(encode_frame(to_message(frame)))

    def send_line(self, line: bytes) -> None:
        self._sent_frames += 1
        self._sent_bytes += len(line)
        if self._sent_frames > IPC_TOTAL_FRAMES or self._sent_bytes > IPC_TOTAL_BYTES:
            raise FramingError("too much was sent")
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._write_to, rest) :]
