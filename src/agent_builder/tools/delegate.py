"""agent/delegate: another Agent is asked once and answers. What happens in between is given by the port AskChild.

Only a call that the provider itself names a call comes here: one that is written as text stays text (llm/proposals.py).
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agent_builder.context.results import project_result
from agent_builder.protocol.delegation import ChildEnd, Delegation, DelegationRefused, OtherAgent
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.events import RunIdentity
from agent_builder.protocol.limits import DELEGATE_ANSWER_BYTES, OTHER_AGENT_NAME_CHARS, OTHER_AGENTS_SHOWN
from agent_builder.protocol.ports import AskChild
from agent_builder.tools.calls import CapabilityCall, CapabilityResult, refused
from agent_builder.tools.effects import Effect, EffectStale
from agent_builder.tools.visible_text import visible

DELEGATE = "agent/delegate"
_AGAIN = "Call agent_delegate again if it is still wanted."
_CUT_ANSWERS = {
    "max_output": " (its answer ends at its output limit)",
    "repetition_truncated": " (its answer was cut where it began to repeat itself)",
}


@dataclass(frozen=True, slots=True)
class Delegating:
    """Who asks, with what: `wall_s` and `model_id` of the asking Run."""

    asking: RunIdentity
    wall_s: float
    model_id: str
    ask_child: AskChild


def plan_delegate(call: CapabilityCall, by: Delegating) -> Effect | CapabilityResult:
    """From any thread."""
    agent_id, message = str(call.arguments["agent_id"]), str(call.arguments["message"])
    fault = _message_fault(message)
    if fault is not None:
        return refused("message", f"nobody was asked: {fault}")
    try:
        target = by.ask_child.target(agent_id)
        by.ask_child.require_room(by.asking)
    except DelegationRefused as refusal:
        return _nobody(refusal)

    def check() -> None:
        _require_same(target, by.ask_child)

    async def act() -> CapabilityResult:
        check()
        try:
            end = await by.ask_child(Delegation(by.asking, target, message, by.wall_s, by.model_id))
        except DelegationRefused as refusal:
            return _nobody(refusal)
        return result_of(call.call_id, target, end)

    return Effect(_shown(target, message), check, act, _AGAIN, interruptible=True)


def other_agent_lines(others: Sequence[OtherAgent]) -> tuple[str, ...]:
    """What a model must know to delegate: one line for each of the first Agents, and how many more there are."""
    lines = [f"Agent {one.agent_id}: {_short(one.name)}" for one in others[:OTHER_AGENTS_SHOWN]]
    left = len(others) - len(lines)
    return (*lines, f"({left} more Agents)") if left else tuple(lines)


def result_of(call_id: str, target: OtherAgent, end: ChildEnd) -> CapabilityResult:
    """What the asking model is told: the other Agent's answer, or in words why there is none."""
    receipt: dict[str, object] = {"agent_id": target.agent_id, "task_id": end.task_id, "conversation_id": end.conversation_id}
    if end.run_id is not None:
        receipt["run_id"] = end.run_id
    if end.state != "completed" or end.answer is None:
        return CapabilityResult("failed", f"child_{end.state}", _no_answer(target, end), receipt)
    data = end.answer.encode()
    heading = f"The Agent {_named(target)} answered{_CUT_ANSWERS.get(end.reason or '', '')}:\n\n"
    shown = project_result(call_id, end.answer, DELEGATE_ANSWER_BYTES - len(heading.encode()), reason="tool_bound")
    receipt |= {"answer_bytes": len(data), "answer_digest": digest_bytes(data), "truncated": shown != end.answer}
    return CapabilityResult("ok", None, heading + shown, receipt)


# Details


def _nobody(refusal: DelegationRefused) -> CapabilityResult:
    return refused(refusal.code, f"nobody was asked: {refusal.sentence}")


def _require_same(target: OtherAgent, ask_child: AskChild) -> None:
    """Raises EffectStale where the Agent that was shown is another one now."""
    try:
        now = ask_child.target(target.agent_id)
    except DelegationRefused as refusal:
        raise EffectStale(refusal.sentence) from refusal
    if now != target:
        raise EffectStale("the other Agent was renamed or rebuilt meanwhile")


def _message_fault(message: str) -> str | None:
    if not message.strip():
        return "the message is empty"
    if any(unicodedata.category(sign) == "Cc" and sign not in "\n\t" for sign in message):
        return "the message has control characters; only line feeds and tabs are allowed"
    return None


def _shown(target: OtherAgent, message: str) -> str:
    """All of it, for the operator: whom, under which id, and every line of the message."""
    lines = "\n".join(visible(line) for line in message.split("\n"))
    return f"{visible(target.name)}\n{target.agent_id}\n\n{lines}\n"


def _no_answer(target: OtherAgent, end: ChildEnd) -> str:
    who = f"The Agent {_named(target)}"
    match end.state:
        case "cancelled":
            words = f"{who} was stopped before it answered"
        case "interrupted":
            words = f"{who} was interrupted before it answered"
        case _:
            words = f"{who} gave no answer ({end.code})" if end.code else f"{who} gave no answer"
    return f"{words}. {end.sentence} It is not asked again in this Turn; say so or go on without it.".replace("  ", " ")


def _named(target: OtherAgent) -> str:
    return f'"{_short(target.name)}"'


def _short(name: str) -> str:
    shown = visible(name)
    return shown if len(shown) <= OTHER_AGENT_NAME_CHARS else shown[: OTHER_AGENT_NAME_CHARS - 1] + "…"
