"""A clock that stands still until somebody sleeps on it or moves it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class StillClock:
    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return START + timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    @asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[None]:
        yield
