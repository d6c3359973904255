"""Slows down guessing of the access token, per socket peer and for all peers together.

An address that keeps failing is refused for 1, 2, 4 … at most LOGIN_LOCK_MAX_S seconds after each failure; attempts while it
is refused do not count. Failures of all addresses together hold a login back for at most LOGIN_GLOBAL_DELAY_S seconds, so
that nobody can lock out an operator who sits at another address. The table is bounded and forgets.
"""

import ipaddress
import math
from collections import OrderedDict
from dataclasses import dataclass

from agent_builder.protocol.errors import LoginThrottled
from agent_builder.protocol.limits import (
    LOGIN_FORGET_S,
    LOGIN_FREE_FAILURES,
    LOGIN_GLOBAL_DELAY_S,
    LOGIN_GLOBAL_FREE_FAILURES,
    LOGIN_LOCK_MAX_S,
    LOGIN_NETWORK_BITS,
    LOGIN_TABLE,
)
from agent_builder.protocol.ports import Clock

_MOST_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class _Failures:
    count: int = 0
    last: float = -math.inf

    def one_more(self, now: float) -> "_Failures":
        return _Failures(self.count + 1, now)


class LoginThrottle:
    """`admit` before a token is compared, then `failed` or `succeeded`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_address: OrderedDict[str, _Failures] = OrderedDict()
        self._all = _Failures()

    async def admit(self, peer: str) -> None:
        """Returns when an attempt may be made. Raises LoginThrottled with `retry_after_s`."""
        address = address_of(peer)
        self._refuse_locked(address)
        delay = self._delay_for_all()
        if delay > 0:
            await self._clock.sleep(delay)
            self._refuse_locked(address)  # others from the same address may have failed meanwhile

    def failed(self, peer: str) -> None:
        now = self._clock.monotonic()
        self._all = self._current_all().one_more(now)
        self._forget_old()
        address = address_of(peer)
        before = self._by_address.pop(address, _Failures())
        if len(self._by_address) >= LOGIN_TABLE:
            self._by_address.popitem(last=False)
        self._by_address[address] = before.one_more(now)

    def succeeded(self, peer: str) -> None:
        self._by_address.pop(address_of(peer), None)

    def __len__(self) -> int:
        """Addresses remembered."""
        return len(self._by_address)

    def _refuse_locked(self, address: str) -> None:
        self._forget_old()
        wait = self._lock_left(self._by_address.get(address, _Failures()))
        if wait > 0:
            raise LoginThrottled(retry_after_s=math.ceil(wait))

    def _lock_left(self, failures: _Failures) -> float:
        locked = _doubled(1.0, failures.count - LOGIN_FREE_FAILURES, LOGIN_LOCK_MAX_S)
        return failures.last + locked - self._clock.monotonic()

    def _delay_for_all(self) -> float:
        return _doubled(1 / 8, self._current_all().count - LOGIN_GLOBAL_FREE_FAILURES, LOGIN_GLOBAL_DELAY_S)

    def _current_all(self) -> _Failures:
        fresh = self._clock.monotonic() - self._all.last <= LOGIN_LOCK_MAX_S
        return self._all if fresh else _Failures()

    def _forget_old(self) -> None:
        """The table is in order of the last failure."""
        horizon = self._clock.monotonic() - LOGIN_FORGET_S
        while self._by_address:
            address, failures = next(iter(self._by_address.items()))
            if failures.last >= horizon:
                return
            del self._by_address[address]


def address_of(peer: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, LOGIN_NETWORK_BITS), strict=False))


def _doubled(first: float, step: int, most: float) -> float:
    """0 before the first step, then `first`, doubled with each step up to `most`."""
    if step < 1:
        return 0.0
    return min(most, first * 2.0 ** min(step - 1, _MOST_DOUBLINGS))
