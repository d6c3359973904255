import asyncio

import pytest

from agent_builder.gateway.throttle import LoginThrottle, address_of
from agent_builder.protocol.errors import LoginThrottled
from agent_builder.protocol.limits import (
    LOGIN_FORGET_S,
    LOGIN_FREE_FAILURES,
    LOGIN_GLOBAL_DELAY_S,
    LOGIN_GLOBAL_FREE_FAILURES,
    LOGIN_LOCK_MAX_S,
    LOGIN_TABLE,
)
from tests.gateway.still_clock import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def throttle(clock: StillClock) -> LoginThrottle:
    return LoginThrottle(clock)


async def locked_for(throttle: LoginThrottle, peer: str) -> float:
    try:
        await throttle.admit(peer)
    except LoginThrottled as refused:
        wait = refused.details["retry_after_s"]
        assert isinstance(wait, int)
        return wait
    return 0


async def test_the_first_failures_are_free_and_the_next_one_locks(throttle: LoginThrottle) -> None:
    for _ in range(LOGIN_FREE_FAILURES):
        throttle.failed("10.0.0.1")
    assert await locked_for(throttle, "10.0.0.1") == 0
    throttle.failed("10.0.0.1")
    assert await locked_for(throttle, "10.0.0.1") == 1


async def test_locks_double_up_to_a_minute(throttle: LoginThrottle, clock: StillClock) -> None:
    locks = []
    for _ in range(LOGIN_FREE_FAILURES + 9):
        throttle.failed("10.0.0.1")
        locks.append(await locked_for(throttle, "10.0.0.1"))
        clock.time += LOGIN_LOCK_MAX_S
    assert locks == [0, 0, 1, 2, 4, 8, 16, 32, LOGIN_LOCK_MAX_S, LOGIN_LOCK_MAX_S, LOGIN_LOCK_MAX_S]


async def test_a_lock_ends_exactly_at_its_time(throttle: LoginThrottle, clock: StillClock) -> None:
    for _ in range(LOGIN_FREE_FAILURES + 1):
        throttle.failed("10.0.0.1")
    clock.time += 0.999
    assert await locked_for(throttle, "10.0.0.1") == 1
    clock.time += 0.001
    assert await locked_for(throttle, "10.0.0.1") == 0


async def test_attempts_during_a_lock_do_not_lengthen_it(throttle: LoginThrottle, clock: StillClock) -> None:
    for _ in range(LOGIN_FREE_FAILURES + 4):
        throttle.failed("10.0.0.1")
    for left in range(8, 0, -1):
        assert await locked_for(throttle, "10.0.0.1") == left
        clock.time += 1
    assert await locked_for(throttle, "10.0.0.1") == 0


async def test_a_success_forgets_the_failures_of_its_address_alone(throttle: LoginThrottle) -> None:
    for peer in ("10.0.0.1", "10.0.0.2"):
        for _ in range(LOGIN_FREE_FAILURES + 2):
            throttle.failed(peer)
    throttle.succeeded("10.0.0.1")
    assert await locked_for(throttle, "10.0.0.1") == 0
    assert await locked_for(throttle, "10.0.0.2") > 0


async def test_failures_elsewhere_hold_a_clean_address_back_for_two_seconds_at_most(throttle: LoginThrottle, clock: StillClock) -> None:
    for number in range(1000):
        throttle.failed(f"10.0.{number % 50}.1")
    assert await locked_for(throttle, "192.168.0.7") == 0
    assert clock.slept == [LOGIN_GLOBAL_DELAY_S]


async def test_few_failures_elsewhere_hold_nobody_back(throttle: LoginThrottle, clock: StillClock) -> None:
    for number in range(LOGIN_GLOBAL_FREE_FAILURES):
        throttle.failed(f"10.0.{number}.1")
    assert await locked_for(throttle, "192.168.0.7") == 0
    assert clock.slept == []
    throttle.failed("10.0.99.1")
    assert await locked_for(throttle, "192.168.0.7") == 0
    assert clock.slept == [1 / 8]


async def test_many_attempts_that_were_held_back_together_do_not_all_pass(throttle: LoginThrottle) -> None:
    for number in range(100):
        throttle.failed(f"10.1.{number}.1")

    async def guess() -> bool:
        try:
            await throttle.admit("10.0.0.1")
        except LoginThrottled:
            return False
        throttle.failed("10.0.0.1")
        return True

    passed = await asyncio.gather(*(guess() for _ in range(100)))
    assert sum(passed) == LOGIN_FREE_FAILURES + 1


async def test_the_table_is_bounded_and_forgets_with_time(throttle: LoginThrottle, clock: StillClock) -> None:
    for number in range(LOGIN_TABLE + 1):
        throttle.failed(f"10.{number // 250}.{number % 250}.1")
        clock.time += 1
    assert len(throttle) == LOGIN_TABLE
    clock.time += LOGIN_FORGET_S + 1
    throttle.failed("10.9.9.9")
    assert len(throttle) == 1


def test_an_address_is_a_host_or_a_network_of_ipv6() -> None:
    assert address_of("10.0.0.1") == "10.0.0.1"
    assert address_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert address_of("2001:db8:0:1::5") == address_of("2001:db8:0:1:ffff::9")
    assert address_of("2001:db8:0:1::5") != address_of("2001:db8:0:2::5")
    assert address_of("fe80::1%eth0") == address_of("fe80::2%eth1")
    assert address_of("") == ""
