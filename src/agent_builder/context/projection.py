"""What the operator may send next, from the plan of a message that is still empty."""

import math
from dataclasses import dataclass
from typing import Literal

from agent_builder.context.compiler import compile_plan
from agent_builder.context.costs import total
from agent_builder.context.estimate import Calibration
from agent_builder.context.inputs import PlanInputs
from agent_builder.context.opening import message_room, user_part
from agent_builder.context.parts import fixed_parts
from agent_builder.context.plan import NextTurnProjection
from agent_builder.protocol.limits import MESSAGE_BYTES, PERCENT
from agent_builder.protocol.request import TokenCounter

Reason = Literal[
    "active_run", "repetition_truncated", "scope_drift", "too_few_samples", "model_unavailable", "instructions_refused", "model_context_limit"
]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a Conversation beside its text. `other_scope`: its last Turn was observed under another model,
    renderer or toolset."""

    calibration: Calibration
    active_run: bool = False
    repetition_truncated: bool = False
    other_scope: bool = False


def hindrance(evidence: Evidence) -> tuple[Literal["unavailable", "stale"], Reason] | None:
    """Why no projection can be given, or None. Never a guess, and never a reason to refuse a message."""
    if evidence.active_run:
        return "stale", "active_run"
    if evidence.repetition_truncated:
        return "stale", "repetition_truncated"
    if evidence.calibration.calibrated:
        return None
    return ("stale", "scope_drift") if evidence.other_scope else ("unavailable", "too_few_samples")


def project_next_turn(inputs: PlanInputs, counter: TokenCounter) -> NextTurnProjection:
    """`inputs`: with an empty message. Raises as compile_plan does."""
    plan, calibration = compile_plan(inputs, counter), inputs.calibration
    soft, upper = calibration.estimate(plan.totals), plan.totals.upper
    counted = max(upper, soft.tokens + soft.error)
    used, usable = math.ceil(_in_tokens(counted, calibration)), int(_in_tokens(plan.input_budget, calibration))
    safe, whole = rooms(inputs, plan.headroom, counter)
    return NextTurnProjection(
        fixed_context_tokens=soft.tokens, operational_context_tokens=plan.window, input_budget=plan.input_budget,
        used_tokens=used, usable_tokens=usable, left_percent=max(0, (usable - used) * PERCENT // max(1, usable)),
        safe_user_tokens=_surely(safe, calibration), safe_user_bytes=min(MESSAGE_BYTES, safe),
        compact_before_user_tokens=_surely(whole, calibration), error_tokens=soft.error,
        counted_by="soft_estimate" if counted > upper else "upper_bound", estimator=counter.name, samples=calibration.samples,
        tools=bool(plan.toolset.specs),
    )


def rooms(inputs: PlanInputs, headroom: int, counter: TokenCounter) -> tuple[int, int]:
    """The largest message that is admitted, and the largest one that makes no Turn leave, in tokens of the upper bound."""
    fixed = fixed_parts(inputs, counter)
    bare = total((*fixed.rendered, user_part(inputs, None, counter)), counter).upper
    safe = max(0, inputs.model.input_budget - headroom - bare)
    return safe, message_room(inputs, fixed, headroom, counter, safe)


def _in_tokens(upper: int, calibration: Calibration) -> float:
    """A number of the upper bound as tokens that the model would really count; a bound of bytes is never shown as tokens."""
    return upper if calibration.exact else upper * min(1.0, calibration.ratio)


def _surely(upper: int, calibration: Calibration) -> int:
    """The same, less what the estimate may be off."""
    return int(_in_tokens(upper, calibration) * (1.0 if calibration.exact else max(0.0, 1 - calibration.spread)))
