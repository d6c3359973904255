"""CheckedUsage: provider metrics that passed their range check. Only `check_usage` makes one from a frame."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent_builder.protocol.limits import TOKENS_MAX

_NS = 10**9  # nanoseconds in a second


class BadUsage(ValueError):
    """A metric is there, but no count that can be believed."""


@dataclass(frozen=True, slots=True)
class CheckedUsage:
    """Tokens of one provider call. `complete`: both counts were reported. `evaluated`: prompt tokens that were not cached,
    and `evaluate_s` the seconds that they took, where both are known."""

    input: int = 0
    output: int = 0
    complete: bool = False
    evaluated: int | None = None
    evaluate_s: float | None = None


NO_USAGE = CheckedUsage()


def check_usage(frame: Mapping[str, object]) -> CheckedUsage:
    """Usage from a final frame. Providers leave out metrics that are zero or unknown; raises BadUsage for nonsense."""
    prompt, output = _count(frame, "prompt_eval_count"), _count(frame, "eval_count")
    duration, cached = _count(frame, "prompt_eval_duration", bound=TOKENS_MAX * _NS), _count(frame, "prompt_eval_cached_count")
    evaluated = prompt - cached if prompt is not None and cached is not None and cached <= prompt else None
    return CheckedUsage(
        input=prompt or 0, output=output or 0, complete=bool(prompt) and output is not None, evaluated=evaluated,
        evaluate_s=duration / _NS if duration else None,
    )


def _count(frame: Mapping[str, object], name: str, bound: int = TOKENS_MAX) -> int | None:
    value = frame.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= bound:
        raise BadUsage(name)
    return value


def with_evaluated(usage: CheckedUsage, evaluated: int) -> CheckedUsage:
    """The same usage, where the provider did not say how much of the prompt it had to evaluate."""
    return usage if usage.evaluated is not None else replace(usage, evaluated=min(evaluated, usage.input))
