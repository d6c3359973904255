"""FrameReader: the frames of one provider stream as they arrive, within its bounds of bytes, lines and frames."""

from agent_builder.llm.faults import line_fault, status_fault
from agent_builder.llm.frames import Frame, parse_frame
from agent_builder.llm.ndjson import LineSplitter, LineTooLong
from agent_builder.llm.ollama import read_start
from agent_builder.llm.provider_http import ConnectionBroken, HttpExchange
from agent_builder.protocol.errors import ModelProtocol, ModelTransport, RunError
from agent_builder.protocol.limits import (
    PROVIDER_ERROR_BYTES,
    RAW_STREAM_BYTES,
    RAW_STREAM_FRAMES,
    RAW_STREAM_SPARE_FRAMES,
)


class FrameReader:
    """`seen`: frames so far. After the final frame nothing more is read."""

    def __init__(self, exchange: HttpExchange, output_cap: int) -> None:
        self.seen = 0
        self._exchange = exchange
        self._most_frames = max(RAW_STREAM_FRAMES, output_cap + RAW_STREAM_SPARE_FRAMES)
        self._lines = LineSplitter()
        self._bytes = 0
        self._fault: RunError | None = None

    async def batch(self) -> list[Frame] | None:
        """All frames of the next read, maybe none of them; None when the exchange was woken. Frames that stand before
        a fault are given first. Raises RunError leaves."""
        if self._fault is not None:
            raise self._fault
        try:
            data = await self._exchange.read()
        except ConnectionBroken:
            raise ModelTransport from None
        if data is None:
            return None
        if self._exchange.status != 200:
            rest = await read_start(self._exchange, PROVIDER_ERROR_BYTES) if data else b""
            raise status_fault(self._exchange.status, (data + rest)[:PROVIDER_ERROR_BYTES])
        frames: list[Frame] = []
        try:
            self._parse(data, frames)
        except RunError as fault:
            if not frames:
                raise
            self._fault = fault
        return frames

    def _parse(self, data: bytes, frames: list[Frame]) -> None:
        self._bytes += len(data)
        if self._bytes > RAW_STREAM_BYTES:
            raise ModelProtocol("The model's answer has too many bytes.")
        try:
            lines = self._lines.feed(data) if data else self._lines.finish()
        except LineTooLong:
            raise ModelProtocol("The model server sent a line that is too long.") from None
        for line in lines:
            frame = parse_frame(line)
            if frame.error is not None:
                raise line_fault(frame.error, first=not self.seen)
            self.seen += 1
            frames.append(frame)
            if frame.done:
                return
            if self.seen > self._most_frames:
                raise ModelProtocol("The model's answer has too many frames.")
        if not data:
            raise ModelProtocol("The model's answer ended without its final frame.")
