import asyncio

import pytest

from agent_builder.protocol.model_profile import Budgets
from agent_builder.runs.deadline import RunClock
from tests.support.clock import MovableClock


async def test_the_deadline_comes_after_run_s() -> None:
    clock = MovableClock()
    run_clock = RunClock(clock, Budgets(run_s=100))
    expired = asyncio.ensure_future(run_clock.expired())
    clock.advance(99)
    await asyncio.sleep(0)
    assert not expired.done()
    clock.advance(1)
    await expired


async def test_waiting_for_the_operator_stops_the_clock() -> None:
    clock = MovableClock()
    run_clock = RunClock(clock, Budgets(run_s=100, approval_s=600))
    before = run_clock.deadline
    async with run_clock.waiting():
        clock.advance(500)
        assert run_clock.deadline == pytest.approx(before + 500, abs=1)
        assert run_clock.remaining_s() == pytest.approx(100, abs=1)
    assert run_clock.deadline == pytest.approx(before + 500, abs=1)
    assert run_clock.remaining_s() == pytest.approx(100, abs=1)


async def test_a_deadline_watched_during_a_wait_moves_with_it() -> None:
    clock = MovableClock()
    run_clock = RunClock(clock, Budgets(run_s=100, approval_s=600))
    expired = asyncio.ensure_future(run_clock.expired())
    async with run_clock.waiting():
        clock.advance(300)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not expired.done()
    clock.advance(101)
    await expired


async def test_no_approval_time_is_left_below_zero() -> None:
    clock = MovableClock()
    run_clock = RunClock(clock, Budgets(approval_s=10))
    async with run_clock.waiting():
        clock.advance(60)
        assert run_clock.remaining_s() == 0
    assert run_clock.remaining_s() == 0
    assert run_clock.expires_at() <= clock.now()


async def test_with_an_approval_time_of_zero_the_clock_never_stops_and_the_deadline_comes_first() -> None:
    clock = MovableClock()
    run_clock = RunClock(clock, Budgets(run_s=100, approval_s=0))
    expired, before = asyncio.ensure_future(run_clock.expired()), run_clock.deadline
    async with run_clock.waiting():
        clock.advance(60)
        assert run_clock.deadline == before
        assert 40 < run_clock.remaining_s() <= 41
        assert not expired.done()
        clock.advance(40)
        await expired
        assert run_clock.remaining_s() > 0
    assert run_clock.deadline == before
