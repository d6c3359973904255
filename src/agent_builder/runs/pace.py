"""How streamed text is cut: into page deltas (soon, then merged) and into the Worker's frames (few)."""

import asyncio
from collections.abc import Awaitable, Callable

from agent_builder.protocol.events import AssistantDelta, Payload, ThinkingDelta
from agent_builder.protocol.limits import (
    CONTENT_FRAMES,
    EPHEMERAL_BETWEEN_DURABLE,
    IPC_TEXT_BYTES,
    PAGE_FRAMES_AT_ONCE,
    PAGE_MERGE_BYTES,
    PAGE_MERGE_MS,
    VISIBLE_TEXT_BYTES,
)
from agent_builder.protocol.ports import Clock
from agent_builder.runs.sequencer import Sequencer

_WORKER_FRAMES_AT_ONCE = CONTENT_FRAMES // 8
_WORKER_MERGE_CHARS = 2 * VISIBLE_TEXT_BYTES // CONTENT_FRAMES
_STEP = EPHEMERAL_BETWEEN_DURABLE // 8
_LAST = 4  # ephemeral seqs left for the flush that ends a call, and for stages
_Delta = type[AssistantDelta] | type[ThinkingDelta]


class PageDeltas:
    """Turns pieces of text into delta events. The first ones go out at once; then they are merged, thinking and text each for
    itself, and ever more so the more ephemeral seqs have passed, so that no call however long runs out of them."""

    def __init__(self, sequencer: Sequencer, clock: Clock) -> None:
        self._sequencer = sequencer
        self._clock = clock
        self._held: dict[_Delta, list[str]] = {}
        self._held_chars = 0
        self._sent = 0
        self._last = clock.monotonic()
        self._waiting = asyncio.Event()

    async def text(self, piece: str) -> None:
        await self._add(AssistantDelta, piece)

    async def thinking(self, piece: str) -> None:
        await self._add(ThinkingDelta, piece)

    async def keep_time(self) -> None:
        """Flushes held text when its time has come although nothing follows; runs beside the call, until cancelled."""
        while True:
            await self._waiting.wait()
            await self._clock.sleep(PAGE_MERGE_MS / 1000)
            if self._due():
                await self.flush()

    async def flush(self) -> None:
        self._waiting.clear()
        if self._held:
            payloads: list[Payload] = [kind(text="".join(pieces)) for kind, pieces in self._held.items()]
            self._held, self._held_chars = {}, 0
            self._sent += 1
            self._last = self._clock.monotonic()
            await self._sequencer.emit(*payloads)

    async def _add(self, kind: _Delta, piece: str) -> None:
        self._held.setdefault(kind, []).append(piece)
        self._held_chars += len(piece)
        if self._due():
            await self.flush()
        else:
            self._waiting.set()

    def _due(self) -> bool:
        if self._sent < PAGE_FRAMES_AT_ONCE:
            return True
        used = self._sequencer.since_durable
        if used >= EPHEMERAL_BETWEEN_DURABLE - _LAST:
            return False
        interval_ms = PAGE_MERGE_MS * (1 << (used // _STEP))
        waited_ms = (self._clock.monotonic() - self._last) * 1000
        return waited_ms >= interval_ms or self._held_chars >= PAGE_MERGE_BYTES * (1 << (used // _STEP))


class WorkerText:
    """Gives the answer text of one call to the Worker in at most CONTENT_FRAMES frames."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._held: list[str] = []
        self._chars = 0
        self._sent = 0

    async def text(self, piece: str) -> None:
        self._held.append(piece)
        self._chars += len(piece)
        if self._sent < _WORKER_FRAMES_AT_ONCE or self._chars >= _WORKER_MERGE_CHARS:
            await self.flush()

    async def flush(self) -> None:
        text = "".join(self._held)
        self._held, self._chars = [], 0
        part = IPC_TEXT_BYTES // 4  # characters; a code point has at most 4 bytes
        for start in range(0, len(text), part):
            self._sent += 1
            await self._send(text[start : start + part])
