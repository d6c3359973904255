"""Who gets a provider stream, and in which order."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from agent_builder.llm.streams import StreamLimit
from agent_builder.protocol.errors import ModelBusy
from agent_builder.protocol.limits import WAITING_FOR_STREAM
from tests.support.clock import MovableClock


class Holder:
    """Holds a stream until `release`."""

    def __init__(self, limit: StreamLimit, model: str, per_model: int, order: list[str]) -> None:
        self.holding = asyncio.Event()
        self._let_go = asyncio.Event()
        self.task = asyncio.ensure_future(self._hold(limit, model, per_model, order))

    async def _hold(self, limit: StreamLimit, model: str, per_model: int, order: list[str]) -> None:
        async with limit.stream(model, per_model, 30.0):
            order.append(model)
            self.holding.set()
            await self._let_go.wait()

    async def release(self) -> None:
        self._let_go.set()
        await self.task


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_first_come_first_served_and_a_full_model_holds_up_no_other() -> None:
    limit, order = StreamLimit(MovableClock(), 2), list[str]()
    a = Holder(limit, "a", 1, order)
    await settled()
    others = [Holder(limit, name, 1, order) for name in ("a", "b", "c")]
    await settled()
    assert order == ["a", "b"]
    await a.release()
    await settled()
    assert order == ["a", "b", "a"]
    await others[1].release()
    await settled()
    assert order == ["a", "b", "a", "c"]
    for one in (others[0], others[2]):
        await one.release()


async def test_a_latecomer_never_overtakes() -> None:
    limit, order = StreamLimit(MovableClock(), 1), list[str]()
    first = Holder(limit, "a", 1, order)
    await settled()
    second = Holder(limit, "b", 1, order)
    await settled()
    third = Holder(limit, "c", 1, order)
    await first.release()
    await settled()
    assert order == ["a", "b"]
    await second.release()
    await third.holding.wait()
    await third.release()


async def test_a_cancelled_waiter_leaves_its_place_to_the_next() -> None:
    limit, order = StreamLimit(MovableClock(), 1), list[str]()
    first, second, third = (Holder(limit, name, 1, order) for name in "abc")
    await settled()
    second.task.cancel()
    await first.release()
    await settled()
    assert order == ["a", "c"]
    await third.release()


async def test_cancelled_in_the_moment_of_admission() -> None:
    limit, order = StreamLimit(MovableClock(), 1), list[str]()
    first, second, third = (Holder(limit, name, 1, order) for name in "abc")
    await settled()
    first._let_go.set()
    while limit._open["b"] == 0:
        await asyncio.sleep(0)
    second.task.cancel()
    await settled()
    assert order == ["a", "c"]
    await third.release()
    await first.task


async def test_a_wait_ends_in_model_busy() -> None:
    clock = MovableClock()
    limit = StreamLimit(clock, 1)
    async with limit.stream("a", 1, 30.0):
        async def wait() -> None:
            async with limit.stream("a", 1, 30.0):
                raise AssertionError

        waiting = asyncio.ensure_future(wait())
        await settled()
        clock.advance(30)
        with pytest.raises(ModelBusy):
            await waiting
    async with limit.stream("a", 1, 0.0):
        pass


async def test_the_queue_has_a_bound() -> None:
    limit, order = StreamLimit(MovableClock(), 1), list[str]()
    holders = [Holder(limit, "a", 1, order) for _ in range(1 + WAITING_FOR_STREAM)]
    await settled()
    with pytest.raises(ModelBusy):
        async with limit.stream("a", 1, 30.0):
            pass
    for holder in holders:
        await holder.release()


async def test_a_failing_holder_gives_its_stream_back() -> None:
    limit = StreamLimit(MovableClock(), 2)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with limit.stream("a", 1, 30.0):
                raise ZeroDivisionError
    async with AsyncExitStack() as both:
        for model in "ab":
            await both.enter_async_context(limit.stream(model, 1, 0.0))
