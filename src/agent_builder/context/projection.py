"""What the operator may send next, from the plan of a message that is still empty."""

from dataclasses import dataclass
from typing import Literal

from agent_builder.context.costs import total
from agent_builder.context.estimate import Calibration
from agent_builder.context.plan import ContextPlan, NextTurnProjection
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


def project_next_turn(plan: ContextPlan, calibration: Calibration, counter: TokenCounter) -> NextTurnProjection:
    """`plan`: compiled for the empty message."""
    soft = calibration.estimate(plan.totals)
    upper = plan.totals.upper
    nearer_soft = soft.tokens + soft.error > upper
    used = max(upper, soft.tokens + soft.error)
    free = plan.input_budget - plan.headroom
    bare = total((*plan.tools, plan.head, plan.user), counter).upper
    safe_upper, compact_upper = max(0, free - bare), max(0, free - upper)
    return NextTurnProjection(
        fixed_context_tokens=soft.tokens, operational_context_tokens=plan.window, input_budget=plan.input_budget,
        safe_user_tokens=_in_tokens(safe_upper, calibration), safe_user_bytes=min(MESSAGE_BYTES, safe_upper),
        compact_before_user_tokens=_in_tokens(compact_upper, calibration), error_tokens=soft.error,
        left_percent=max(0, (plan.input_budget - used) * PERCENT // plan.input_budget),
        counted_by="soft_estimate" if nearer_soft else "upper_bound", estimator=counter.name, samples=calibration.samples,
        tools=bool(plan.toolset.specs),
    )


def _in_tokens(upper: int, calibration: Calibration) -> int:
    """Room of the upper bound as tokens that the model would really count; a bound of bytes is never shown as tokens."""
    return upper if calibration.exact else int(upper * min(1.0, calibration.ratio) * max(0.0, 1 - calibration.spread))
