"""StreamLimit: how many provider streams are open, per model and in all. First come, first served."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent_builder.protocol.errors import ModelBusy
from agent_builder.protocol.limits import WAITING_FOR_STREAM
from agent_builder.protocol.ports import Clock


@dataclass(slots=True)
class _Waiter:
    model_id: str
    limit: int
    admitted: asyncio.Future[None]


class StreamLimit:
    """`total`: streams of all models together."""

    def __init__(self, clock: Clock, total: int) -> None:
        self._clock = clock
        self._total = total
        self._open: Counter[str] = Counter()
        self._waiting: deque[_Waiter] = deque()

    @asynccontextmanager
    async def stream(
        self, model_id: str, limit: int, wait_s: float, on_wait: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncIterator[None]:
        """Holds one stream of the model inside the block. `on_wait` is called when there is none at once. Raises
        ModelBusy after `wait_s` seconds, or at once when too many wait."""
        if self._waiting or not self._fits(model_id, limit):
            await self._wait(model_id, limit, wait_s, on_wait)
        else:
            self._open[model_id] += 1
        try:
            yield
        finally:
            self._open[model_id] -= 1
            self._admit()

    async def _wait(self, model_id: str, limit: int, wait_s: float, on_wait: Callable[[], Awaitable[None]] | None) -> None:
        if len(self._waiting) >= WAITING_FOR_STREAM:
            raise ModelBusy
        waiter = _Waiter(model_id, limit, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._admit()
        try:
            async with self._clock.timeout(wait_s):
                if on_wait is not None and not waiter.admitted.done():
                    await on_wait()
                await waiter.admitted
        except BaseException as error:
            self._give_up(waiter)
            if isinstance(error, TimeoutError):
                raise ModelBusy from None
            raise

    def _give_up(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        else:  # admitted in the same moment: the place goes to the next
            self._open[waiter.model_id] -= 1
        self._admit()

    def _admit(self) -> None:
        """Everyone who fits, in order; a model that is full does not hold up another."""
        for waiter in list(self._waiting):
            if self._fits(waiter.model_id, waiter.limit):
                self._waiting.remove(waiter)
                self._open[waiter.model_id] += 1
                if not waiter.admitted.done():
                    waiter.admitted.set_result(None)

    def _fits(self, model_id: str, limit: int) -> bool:
        return self._open[model_id] < limit and self._open.total() < self._total
