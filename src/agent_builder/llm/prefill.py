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


@dataclass(frozen=True, slots=True)
class Estimate:
    """`uncached`: tokens, by the request's own counter, that the server has probably still to read. `expected_s`: how
    long that takes at the observed rate, None before anything was observed."""

    uncached: int
    expected_s: float | None


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


@dataclass(slots=True)
class _Prefix:
    digests: tuple[str, ...]
    tokens: tuple[int, ...]


class Prefill:
    """One per process, in memory. Rates can be kept elsewhere: `rate` and `seed_rate`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._endpoints: dict[str, _Endpoint] = {}
        self._prefixes: dict[tuple[str, str, bool], _Prefix] = {}
        self._rates: dict[tuple[str, str], deque[float]] = {}

    # how long a request will take --------------------------------------------------------------------------------

    def estimate(self, model: QualifiedModel, rendered: RenderedRequest) -> Estimate:
        known = self._prefixes.get(_slot(model, rendered))
        cached = shared_tokens(known.digests, rendered) if known else 0
        uncached = max(1, rendered.text_tokens - cached)
        rate = self.rate(model.model_id, rendered.counter)
        return Estimate(uncached, uncached / rate if rate else None)

    def rate(self, model_id: str, counter: str) -> float | None:
        """Tokens of this counter that the model reads per second."""
        rates = self._rates.get((model_id, counter))
        return median(rates) if rates else None

    def seed_rate(self, model_id: str, counter: str, tokens_per_s: float) -> None:
        """A rate from an earlier process; observations of this one go before it."""
        if tokens_per_s > 0 and (model_id, counter) not in self._rates:
            self._rates[model_id, counter] = deque([tokens_per_s], maxlen=RATES_KEPT)

    def remember(self, model: QualifiedModel, rendered: RenderedRequest) -> None:
        """The server has read this prompt: the next one may share its beginning."""
        self._prefixes[_slot(model, rendered)] = _Prefix(rendered.prefix_digests, rendered.prefix_tokens)

    def forget(self, model: QualifiedModel, rendered: RenderedRequest) -> None:
        """Nobody knows what the server has kept: its reading was broken off, or the model was loaded anew."""
        self._prefixes.pop(_slot(model, rendered), None)

    def forget_model(self, model: QualifiedModel) -> None:
        profile = model.profile
        for with_tools in (False, True):
            self._prefixes.pop((profile.endpoint, profile.provider_model, with_tools), None)

    def observe(self, model: QualifiedModel, rendered: RenderedRequest, estimate: Estimate, usage: CheckedUsage) -> CheckedUsage:
        """Learns from a finished call; gives the usage with the evaluated part filled in."""
        if not usage.complete:
            return usage
        share = estimate.uncached / max(1, rendered.text_tokens)
        read = estimate.uncached
        if usage.evaluated is not None:
            share = usage.evaluated / max(1, usage.input)
            read = round(share * rendered.text_tokens)
        elif usage.evaluate_s and self._prefix_was_lost(model, rendered, read / usage.evaluate_s):
            share, read = 1.0, rendered.text_tokens
        if usage.evaluate_s and read >= RATE_MIN_TOKENS:
            key = (model.model_id, rendered.counter)
            self._rates.setdefault(key, deque(maxlen=RATES_KEPT)).append(read / usage.evaluate_s)
        return with_evaluated(usage, round(share * usage.input))

    def _prefix_was_lost(self, model: QualifiedModel, rendered: RenderedRequest, rate: float) -> bool:
        known = self.rate(model.model_id, rendered.counter)
        return known is not None and rate < LOST_PREFIX * known

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

    def _wake_others(self, state: _Endpoint, call: OpenCall) -> None:
        for other in state.calls:
            if other is not call:
                other.wake()


def shared_tokens(digests: Sequence[str], rendered: RenderedRequest) -> int:
    """Tokens of the tools and messages that stand, in order, at the beginning of both requests."""
    tokens = 0
    for known, digest, size in zip(digests, rendered.prefix_digests, rendered.prefix_tokens, strict=False):
        if known != digest:
            break
        tokens += size
    return tokens


def _slot(model: QualifiedModel, rendered: RenderedRequest) -> tuple[str, str, bool]:
    """Servers that keep several prefixes keep requests with tools and without apart."""
    return model.profile.endpoint, model.profile.provider_model, bool(rendered.tools)
