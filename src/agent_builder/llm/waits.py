"""The clocks of one model call: how long it may wait for a first frame, between frames, and in all. What a server needs
for reading a long prompt is granted on top; a clock does not run while the wait is not this call's own.
"""

from dataclasses import dataclass

from agent_builder.llm.prefill import Estimate
from agent_builder.protocol.errors import ModelFirstFrameTimeout, ModelStreamIdleTimeout, ModelTurnDeadline, RunError
from agent_builder.protocol.model_profile import Timeouts
from agent_builder.protocol.ports import Clock


@dataclass(frozen=True, slots=True)
class Wait:
    """At most `seconds` (None: no limit of this call), then `fault`."""

    seconds: float | None
    fault: type[RunError]


class CallWaits:
    """Its clocks run from here on. `cancelled_s`: what an earlier prompt may still cost. `with_tools`: a native call is
    silent until it is complete. `shortened`: the attempt has no full first-frame clock, since the call has not that much
    time left."""

    def __init__(self, clock: Clock, timeouts: Timeouts, cancelled_s: float, *, with_tools: bool) -> None:
        self._clock = clock
        self._timeouts = timeouts
        self._cancelled_s = cancelled_s
        self._silent_s = timeouts.silent_call_s if with_tools else 0.0
        self._idle_s = max(timeouts.idle_s, self._silent_s)
        self._first_left = self._granted = 0.0
        self._call_left = timeouts.call_s + cancelled_s
        self._looked_at = clock.monotonic()
        self.shortened = False

    def new_attempt(self, estimate: Estimate) -> None:
        """The first-frame clock begins anew. What reading the prompt needs beyond the usual is added to the call, once."""
        reading = 2 * (estimate.expected_s or 0.0)
        granted = max(0.0, reading - self._timeouts.first_frame_s)
        self._call_left += max(0.0, granted - self._granted)
        self._granted = max(granted, self._granted)
        self._first_left = max(self._timeouts.first_frame_s, self._silent_s, reading) + self._cancelled_s
        self.shortened = self._call_left < self._first_left

    def first_frame(self, *, running: bool) -> Wait:
        """`running`: the silence is this call's own; otherwise there is no limit for now. A call that ends in silence has
        had no first frame in time, whichever clock was the shorter one."""
        seconds = max(0.0, min(self._first_left, self._call_left)) if running else None
        return Wait(seconds, ModelFirstFrameTimeout)

    def spend(self, *, running: bool) -> None:
        """Takes off the time since the last look, unless the clocks were not running."""
        passed = self._passed()
        if running:
            self._first_left -= passed
            self._call_left -= passed

    def next_frame(self) -> Wait:
        self.spend(running=True)
        if self._call_left < self._idle_s:
            return Wait(max(0.0, self._call_left), ModelTurnDeadline)
        return Wait(self._idle_s, ModelStreamIdleTimeout)

    def time_is_left(self) -> bool:
        self.spend(running=True)
        return self._call_left > 0

    def _passed(self) -> float:
        now = self._clock.monotonic()
        passed, self._looked_at = now - self._looked_at, now
        return passed
