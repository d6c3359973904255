"""RunClock: the wall clock of one Run. It stands still while the operator decides, for at most the profile's approval time; an
approval time of 0 means that it never does, and a decision may then come until the Run's own deadline.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from agent_builder.protocol.model_profile import Budgets
from agent_builder.protocol.ports import Clock

_DEADLINE_FIRST_S = 1.0  # between the Run's end and that of an approval whose wait it does not stop for


class RunClock:
    """Starts when it is made. All values in seconds."""

    def __init__(self, clock: Clock, budgets: Budgets) -> None:
        self._clock = clock
        self._run_s = budgets.run_s
        self._deadline = clock.monotonic() + budgets.run_s
        self._stops = budgets.approval_s > 0
        self._approval_left = budgets.approval_s
        self._waiting_since: float | None = None

    def restart(self) -> None:
        """What has passed so far was not the Run's: it waited for its model to be loaded."""
        self._deadline = self._clock.monotonic() + self._run_s

    @property
    def deadline(self) -> float:
        """On the monotonic clock; moves only by waiting."""
        return self._deadline + self._paused()

    def remaining_s(self) -> float:
        """What is left of the approval time."""
        if not self._stops:
            return max(0.0, self._deadline - self._clock.monotonic()) + _DEADLINE_FIRST_S
        return max(0.0, self._approval_left - self._paused())

    def expires_at(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.remaining_s())

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        self._waiting_since = self._clock.monotonic()
        try:
            yield
        finally:
            waited = self._paused()
            self._deadline += waited
            self._approval_left = max(0.0, self._approval_left - waited)
            self._waiting_since = None

    def _paused(self) -> float:
        """Since the wait began, if there is one."""
        if self._waiting_since is None or not self._stops:
            return 0.0
        return self._clock.monotonic() - self._waiting_since

    async def expired(self) -> None:
        """Returns once the deadline has passed."""
        while (left := self.deadline - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
