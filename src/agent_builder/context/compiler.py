"""compile_plan and render_call: the one way from what is known to a request that fits its window.

Nothing over the input budget is ever rendered: after every step the whole request is counted again. What may leave, in
this order: whole past Turns from the oldest end, the notes on them. Then ModelContextLimit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_builder.context.costs import Rendered, priced, rendered_request, total
from agent_builder.context.inputs import PlanInputs, continuation_headroom
from agent_builder.context.instructions import FINALIZATION_MARKER
from agent_builder.context.notes import NO_NOTES, Notes, notes_of
from agent_builder.context.opening import opening, user_part
from agent_builder.context.overhead import without_tools
from agent_builder.context.parts import (
    FixedParts,
    fixed_parts,
    note_room,
    rendered_turn,
    section,
    turn_section,
)
from agent_builder.context.plan import AdmissionUpperBound, ContextPlan, HistoryCounts, RenderedTurn, Section
from agent_builder.context.render import (
    RENDERER,
    attachment_block,
    exchange_messages,
    git_block,
    preface_of,
)
from agent_builder.context.toolset import id_from
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.errors import ModelContextLimit
from agent_builder.protocol.messages import Exchange
from agent_builder.protocol.request import RenderedRequest, TokenCounter


def compile_plan(inputs: PlanInputs, counter: TokenCounter) -> ContextPlan:
    """Raises ModelContextLimit with the numbers, and InstructionsRefused."""
    fixed = fixed_parts(inputs, counter)
    headroom = continuation_headroom(inputs.model, inputs.toolset, counter)
    draft = _draft(inputs, fixed, headroom, counter)
    limit = inputs.model.input_budget - headroom
    while (needed := total(draft.parts, counter).upper) > limit:
        if not draft.notes.messages:
            raise _too_large(needed, limit)
        draft = replace(draft, notes=NO_NOTES)
    return _sealed(draft, headroom, counter)


def render_call(
    plan: ContextPlan, exchanges: Sequence[Exchange], *, with_tools: bool, finalize: bool, counter: TokenCounter
) -> RenderedRequest:
    """The request of one model call after `exchanges`. Where they have grown too large for the window, past Turns leave.
    `finalize` ends it with the fixed trusted marker. Raises ModelContextLimit with the numbers."""
    steps = [*exchanges, Exchange(correction=FINALIZATION_MARKER)] if finalize else list(exchanges)
    groups = [tuple(priced(message, counter) for message in exchange_messages([step])) for step in steps]
    turns = _fitting_turns(plan, groups, counter)
    tail = tuple(part for group in groups for part in group)
    tools, note = plan.tools, plan.note
    if tools and not with_tools:
        tools, counter = (), without_tools(counter)
    if total((*tools, plan.head, *note, *_messages(turns), plan.user, *tail), counter).upper > plan.input_budget:
        note = ()
    return _request(plan, tools, (plan.head, *note, *_messages(turns), plan.user, *tail), counter)


def drop_oldest(plan: ContextPlan, counter: TokenCounter) -> ContextPlan | None:
    """The plan with about half of its history gone, or its notes when no Turn is left; None when nothing can go."""
    if plan.turns:
        costs = [total(turn.messages, counter).text for turn in plan.turns]
        gone, left = 0, sum(costs)
        while gone < len(costs) and (gone == 0 or left > sum(costs) // 2):
            left -= costs[gone]
            gone += 1
        return _with_history(plan, plan.turns[gone:], plan.note, counter)
    return _with_history(plan, (), (), counter) if plan.note else None


# drafting ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Draft:
    inputs: PlanInputs
    fixed: FixedParts
    start: int
    notes: Notes
    turns: tuple[RenderedTurn, ...]
    git: str | None
    user: Rendered

    @property
    def parts(self) -> tuple[Rendered, ...]:
        return (*self.fixed.rendered, *self.notes.messages, *_messages(self.turns), self.user)

    @property
    def preface(self) -> str:
        return preface_of(self.inputs.attachments, self.git, tools=bool(self.inputs.toolset.specs))


def _draft(inputs: PlanInputs, fixed: FixedParts, headroom: int, counter: TokenCounter) -> _Draft:
    decided = opening(inputs, fixed, headroom, counter)
    start, git = decided.start, decided.git
    return _Draft(
        inputs=inputs, fixed=fixed, start=start,
        notes=notes_of(inputs.history[:start], inputs.summary, note_room(inputs.model.input_budget), counter) if start else NO_NOTES,
        turns=tuple(rendered_turn(bundle, counter) for bundle in inputs.history[start:]),
        git=git, user=user_part(inputs, git, counter),
    )


def _too_large(needed: int, limit: int) -> ModelContextLimit:
    return ModelContextLimit(
        f"The request needs {needed} tokens, even with all earlier Turns left out; {limit} are free in the model's window. "
        "Shorten the message or attach less.", needed=needed, allowed=limit,
    )


# sealing -----------------------------------------------------------------------------------------------------


def _sealed(draft: _Draft, headroom: int, counter: TokenCounter) -> ContextPlan:
    inputs, model = draft.inputs, draft.inputs.model
    totals = total(draft.parts, counter)
    sections = (*draft.fixed.sections, *_note_section(draft.notes, counter), *(turn_section(turn) for turn in draft.turns),
                *_message_sections(draft, counter))
    plan = ContextPlan(
        plan_id="", digest="", model_id=model.model_id, model_digest=model.digest, renderer=RENDERER, native_window=model.native_window,
        window=model.window, output_reserve=model.output_reserve, input_budget=model.input_budget, budgets=model.profile.budgets,
        toolset=inputs.toolset, sections=sections, start=draft.start,
        history=HistoryCounts(len(draft.turns), draft.start - draft.notes.collapsed, draft.notes.collapsed),
        admission=AdmissionUpperBound(totals.upper, model.input_budget, counter.name, counter.exact), headroom=headroom, totals=totals,
        preface=draft.preface, instructions_digest=draft.fixed.head.digest, history_digest="",
        tools=draft.fixed.tools, head=draft.fixed.head, note=draft.notes.messages, turns=draft.turns, user=draft.user,
    )
    return _named(plan)


def _named(plan: ContextPlan) -> ContextPlan:
    """The plan under the digests of its content."""
    history = digest_of([part.digest for part in (*plan.note, *_messages(plan.turns))])
    digest = digest_of([
        plan.model_id, plan.model_digest, plan.renderer, plan.window, plan.output_reserve, plan.toolset.digest, plan.head.digest,
        history, plan.user.digest, plan.budgets.model_calls, plan.budgets.tool_calls, plan.budgets.run_s, plan.headroom, plan.start,
    ])
    return replace(plan, plan_id=id_from(digest), digest=digest, history_digest=history)


def _note_section(notes: Notes, counter: TokenCounter) -> tuple[Section, ...]:
    return (section("notes", "user", "untrusted", "earlier Turns", notes.text, counter),) if notes.messages else ()


def _message_sections(draft: _Draft, counter: TokenCounter) -> list[Section]:
    """This Turn's message and what stands behind it, which is one provider message."""
    tools = bool(draft.inputs.toolset.specs)
    found = [
        section("attachment", "user", "untrusted", f"workspace/{one.path}", attachment_block(one, tools=tools), counter)
        for one in draft.inputs.attachments
    ]
    if draft.git is not None:
        found.append(section("git status", "user", "untrusted", "workspace git", git_block(draft.git), counter))
    return [*found, section("message", "user", "operator", "this Turn", draft.inputs.user_text, counter)]


def _with_history(plan: ContextPlan, turns: tuple[RenderedTurn, ...], note: tuple[Rendered, ...], counter: TokenCounter) -> ContextPlan:
    gone = len(plan.turns) - len(turns)
    totals = total((*plan.tools, plan.head, *note, *_messages(turns), plan.user), counter)
    first = next((i for i, one in enumerate(plan.sections) if one.name == "turn"), 0)
    sections = [one for i, one in enumerate(plan.sections) if not (one.name == "turn" and i < first + gone) and (note or one.name != "notes")]
    before = plan.history
    collapsed = before.collapsed if note else 0
    return _named(replace(
        plan, turns=turns, note=note, start=plan.start + gone, sections=tuple(sections), totals=totals,
        history=HistoryCounts(len(turns), before.omitted + gone + before.collapsed - collapsed, collapsed),
        admission=replace(plan.admission, tokens=totals.upper),
    ))


# rendering ---------------------------------------------------------------------------------------------------


def _fitting_turns(plan: ContextPlan, groups: Sequence[tuple[Rendered, ...]], counter: TokenCounter) -> tuple[RenderedTurn, ...]:
    """The past Turns that still have room. Replayed exchange by exchange, so that a call finds the same Turns gone as the
    call before it."""
    costs = [sum(part.cost.upper(counter) for part in turn.messages) for turn in plan.turns]
    gone, used = 0, plan.totals.upper
    for group in groups:
        used += sum(part.cost.upper(counter) for part in group)
        if used <= plan.input_budget:
            continue
        while gone < len(costs) and used > (plan.input_budget // 2 if gone < len(costs) - 1 else plan.input_budget):
            used -= costs[gone]
            gone += 1
    return plan.turns[gone:]


def _request(plan: ContextPlan, tools: tuple[Rendered, ...], messages: tuple[Rendered, ...], counter: TokenCounter) -> RenderedRequest:
    request = rendered_request(tools, messages, counter)
    if request.admission_tokens > plan.input_budget:
        raise _too_large(request.admission_tokens, plan.input_budget)
    return request


def _messages(turns: Sequence[RenderedTurn]) -> tuple[Rendered, ...]:
    return tuple(part for turn in turns for part in turn.messages)
