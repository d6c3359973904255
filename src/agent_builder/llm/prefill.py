"""Prompt evaluation: how fast a model reads, how much of a request its server has read before, and what our own open and
cancelled calls mean for the next one. A server without a GPU is silent for all of that time.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from agent_builder.llm.usage import CheckedUsage, with_evaluated
from agent_builder.protocol.limits import CANCELLED_PROMPT_S, RATE_MIN_TOKENS, RATES_KEPT
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest

LOST_PREFIX = 0.5
"""A rate below this part of the known one means that the server had lost the prefix and read all of the prompt."""

TOO_FAST = 8
"""A rate above this multiple of what was seen before means that the server had kept more of the prompt than was known."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`uncached`: tokens, by the request's own counter, that the server has at most still to read. `expected_s`: how
    long that takes at the observed rate, None before anything was observed. `certain`: it is known what the server has
    kept; otherwise it may have read the prompt before, for somebody else or before this process began."""

    uncached: int
    expected_s: float | None
    certain: bool


@dataclass(eq=False, slots=True)
class OpenCall:
    """A call of ours at an endpoint. `wake` is called when a call before it has gone on or ended."""

    wake: Callable[[], None]
    first_frame: bool = False


@dataclass(slots=True)
class _Endpoint:
    calls: list[OpenCall] = field(default_factory=list)
    parallel: bool = False  # a call got its first frame while an earlier one was still open
    busy_until: float = 0.0


_Slot = tuple[str, str, bool]
_Prefix = tuple[str, ...]  # digests of tools and messages, in order


class Prefill:
    """One per process, in memory. Rates can be kept elsewhere: `rate` and `seed_rate`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._endpoints: dict[str, _Endpoint] = {}
        self._prefixes: dict[_Slot, _Prefix] = {}  # a slot that is missing may hold anything
        self._rates: dict[tuple[str, str], deque[float]] = {}
        self._seeds: dict[tuple[str, str], float] = {}

    # how long a request will take --------------------------------------------------------------------------------

    def estimate(self, model: QualifiedModel, rendered: RenderedRequest) -> Estimate:
        known = self._prefixes.get(self._slot(model, with_tools=bool(rendered.tools)))
        uncached = max(1, rendered.text_tokens - shared_tokens(known or (), rendered))
        rate = self.rate(model.model_id, rendered.counter)
        return Estimate(uncached, uncached / rate if rate else None, known is not None)

    def rate(self, model_id: str, counter: str) -> float | None:
        """Tokens of this counter that the model reads per second."""
        rates = self._rates.get((model_id, counter))
        return median(rates) if rates else self._seeds.get((model_id, counter))

    def seed_rate(self, model_id: str, counter: str, tokens_per_s: float) -> None:
        """A rate from an earlier process; observations of this one go before it."""
        if tokens_per_s > 0:
            self._seeds[model_id, counter] = tokens_per_s

    def remember(self, model: QualifiedModel, rendered: RenderedRequest) -> None:
        """The server has read this prompt: the next one may share its beginning."""
        self._prefixes[self._slot(model, with_tools=bool(rendered.tools))] = rendered.prefix_digests

    def forget(self, model: QualifiedModel) -> None:
        """Nobody knows what the server has kept: its reading was broken off."""
        for with_tools in (False, True):
            self._prefixes.pop(self._slot(model, with_tools=with_tools), None)

    def emptied(self, model: QualifiedModel) -> None:
        """The model is loaded anew: the server has kept nothing."""
        for with_tools in (False, True):
            self._prefixes[self._slot(model, with_tools=with_tools)] = ()

    def observe(self, model: QualifiedModel, rendered: RenderedRequest, estimate: Estimate, usage: CheckedUsage) -> CheckedUsage:
        """Learns from a finished call; gives the usage with the evaluated part filled in, where that is known."""
        if not usage.complete:
            return usage
        read = self._tokens_read(model, rendered, estimate, usage)
        if read is None:
            return usage
        if usage.evaluate_s and read >= RATE_MIN_TOKENS:
            key = (model.model_id, rendered.counter)
            self._rates.setdefault(key, deque(maxlen=RATES_KEPT)).append(read / usage.evaluate_s)
        return with_evaluated(usage, round(read / max(1, rendered.text_tokens) * usage.input))

    def _tokens_read(self, model: QualifiedModel, rendered: RenderedRequest, estimate: Estimate, usage: CheckedUsage) -> int | None:
        """Tokens, by the request's own counter, that the server had to read; None where the time that it took speaks
        against what is known, or nothing is."""
        if usage.evaluated is not None:
            return round(usage.evaluated / max(1, usage.input) * rendered.text_tokens)
        if not estimate.certain:
            return None
        if not usage.evaluate_s:
            return estimate.uncached
        speed, seen = estimate.uncached / usage.evaluate_s, self._rates.get((model.model_id, rendered.counter))
        if seen and speed > TOO_FAST * median(seen):
            return None
        known = self.rate(model.model_id, rendered.counter)
        return rendered.text_tokens if known and speed < LOST_PREFIX * known else estimate.uncached

    # our own calls at one endpoint -------------------------------------------------------------------------------

    def opened(self, endpoint: str, wake: Callable[[], None]) -> OpenCall:
        call = OpenCall(wake)
        self._endpoints.setdefault(endpoint, _Endpoint()).calls.append(call)
        return call

    def is_behind(self, endpoint: str, call: OpenCall) -> bool:
        """Whether an earlier call of ours may be the reason for this one's silence: it has no frame yet, or the server
        was never seen to answer two calls at once."""
        state = self._endpoints[endpoint]
        earlier = state.calls[: state.calls.index(call)]
        return any(not one.first_frame or not state.parallel for one in earlier)

    def got_first_frame(self, endpoint: str, call: OpenCall) -> None:
        state = self._endpoints[endpoint]
        call.first_frame = True
        state.busy_until = 0.0
        state.parallel = state.parallel or state.calls[0] is not call
        self._wake_others(state, call)

    def closed(self, endpoint: str, call: OpenCall) -> None:
        state = self._endpoints[endpoint]
        state.calls.remove(call)
        self._wake_others(state, call)

    def cancelled_before_a_frame(self, endpoint: str, estimate: Estimate, silent_s: float) -> None:
        """The server may go on reading a prompt that nobody waits for. Twice the estimate bounds it, as it bounds our
        waiting; a server silent for longer than that, or of unknown speed, gets a minute."""
        known = 2 * estimate.expected_s if estimate.expected_s is not None else 0.0
        rest = known - silent_s if silent_s < known else CANCELLED_PROMPT_S
        state = self._endpoints.setdefault(endpoint, _Endpoint())
        state.busy_until = max(state.busy_until, self._clock.monotonic() + rest)

    def cancelled_prompt_s(self, endpoint: str) -> float:
        """Seconds for which the server may still be reading a cancelled prompt."""
        state = self._endpoints.get(endpoint)
        return max(0.0, state.busy_until - self._clock.monotonic()) if state else 0.0

    def _slot(self, model: QualifiedModel, *, with_tools: bool) -> _Slot:
        """Where the server keeps the prefix of such a request. Only one that has several slots keeps requests with tools
        and requests without apart; with one slot each call replaces what the one before has left."""
        profile = model.profile
        seen = self._endpoints.get(profile.endpoint)
        apart = profile.slots > 1 or (seen is not None and seen.parallel)
        return profile.endpoint, profile.provider_model, apart and with_tools

    def _wake_others(self, state: _Endpoint, call: OpenCall) -> None:
        for other in state.calls:
            if other is not call:
                other.wake()


def shared_tokens(known_digests: Sequence[str], rendered: RenderedRequest) -> int:
    """Tokens of the tools and messages that stand, in order, at the beginning of both requests."""
    tokens = 0
    for known, digest, size in zip(known_digests, rendered.prefix_digests, rendered.prefix_tokens, strict=False):
        if known != digest:
            break
        tokens += size
    return tokens
