"""ContextPlan: what one Turn's requests are made of, and the four counts that must never be taken for one another."""

from dataclasses import dataclass, field
from typing import Literal

from agent_builder.context.costs import Rendered, Totals
from agent_builder.context.toolset import EffectiveToolSet
from agent_builder.protocol.messages import CompletedTurnContext
from agent_builder.protocol.model_profile import Budgets

Trust = Literal["trusted", "operator", "untrusted"]
Role = Literal["system", "user", "conversation"]


@dataclass(frozen=True, slots=True)
class AdmissionUpperBound:
    """The hard gate: no request has more tokens than this, by `estimator`. `budget`: the most that is admitted."""

    tokens: int
    budget: int
    estimator: str
    exact: bool


@dataclass(frozen=True, slots=True)
class ProviderObservedUsage:
    """What the provider reported for the one request with this digest."""

    request_digest: str
    input: int
    output: int


@dataclass(frozen=True, slots=True)
class SoftContextEstimate:
    """A calibrated guess: the true count lies within `error` tokens of `tokens`, as far as `samples` observations tell."""

    tokens: int
    error: int
    samples: int


@dataclass(frozen=True, slots=True)
class NextTurnProjection:
    """What the operator may send next. Tokens, unless named otherwise.

    fixed_context_tokens        what is occupied before the message
    operational_context_tokens  the window
    input_budget                the window without the room for the answer
    used_tokens, usable_tokens  what is occupied and what can be, both counted by `counted_by` and told as the model counts
    left_percent                what of usable_tokens is not used
    safe_user_tokens            a message up to this is admitted in any case, if need be without earlier Turns
    safe_user_bytes             the same in UTF-8 bytes, for any text whatever
    compact_before_user_tokens  a message above this makes earlier Turns leave
    error_tokens                how far fixed_context_tokens may be off
    counted_by                  whichever of estimate and upper bound is nearer to the input budget
    tools                       whether the next message may use tools
    """

    fixed_context_tokens: int
    operational_context_tokens: int
    input_budget: int
    used_tokens: int
    usable_tokens: int
    left_percent: int
    safe_user_tokens: int
    safe_user_bytes: int
    compact_before_user_tokens: int
    error_tokens: int
    counted_by: Literal["soft_estimate", "upper_bound"]
    estimator: str
    samples: int
    tools: bool


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a plan. `provenance`: where its text comes from. The text itself never leaves the Control Plane but
    through the diagnostic reveal."""

    name: str
    role: Role
    trust: Trust
    provenance: str
    bytes: int
    tokens: int
    digest: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HistoryCounts:
    """Completed Turns: whole in the request, left out, and present only in the notes."""

    included: int
    omitted: int
    collapsed: int


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """A past Turn as it stands in the request: all of its messages or none."""

    bundle: CompletedTurnContext
    messages: tuple[Rendered, ...]


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """Immutable; a change makes a new plan. Made by compiler.compile_plan alone. `head` is the system message, `note`
    stands for the Turns that are only summarised, `user` is this Turn's message with `preface` behind it.
    `start` counts the Turns before the first whole one."""

    plan_id: str
    digest: str
    model_id: str
    model_digest: str
    renderer: str
    native_window: int
    window: int
    output_reserve: int
    input_budget: int
    budgets: Budgets
    toolset: EffectiveToolSet
    sections: tuple[Section, ...]
    history: HistoryCounts
    start: int
    admission: AdmissionUpperBound
    headroom: int
    totals: Totals
    preface: str
    instructions_digest: str
    history_digest: str
    tools: tuple[Rendered, ...] = field(repr=False)
    head: Rendered = field(repr=False)
    note: tuple[Rendered, ...] = field(repr=False)
    turns: tuple[RenderedTurn, ...] = field(repr=False)
    user: Rendered = field(repr=False)
