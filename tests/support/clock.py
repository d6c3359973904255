"""A clock that runs like the real one and can also be moved forward."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta


class MovableClock:
    """Real time plus what `advance` added; whoever sleeps or has a time-out notices a move at once."""

    def __init__(self) -> None:
        self._added = 0.0
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._added)

    def monotonic(self) -> float:
        return time.monotonic() + self._added

    def advance(self, seconds: float) -> None:
        self._added += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        await asyncio.sleep(0)
        while (left := until - self.monotonic()) > 0:
            moved = asyncio.ensure_future(self._moved.wait())
            try:
                await asyncio.wait({moved}, timeout=left)
            finally:
                moved.cancel()

    @asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as scope:
            watcher = asyncio.ensure_future(self._expire(scope, seconds)) if seconds is not None else None
            try:
                yield
            finally:
                if watcher is not None:
                    watcher.cancel()

    async def _expire(self, scope: asyncio.Timeout, seconds: float) -> None:
        await self.sleep(seconds)
        scope.reschedule(asyncio.get_running_loop().time())
