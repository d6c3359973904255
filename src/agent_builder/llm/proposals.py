"""ProposedCall: what one tool call of a model means, after its name and arguments were compared with the offered tools. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_builder.llm.frames import RawCall
from agent_builder.llm.strict_json import NotJson, parse_json_once
from agent_builder.llm.text_calls import WrittenCall
from agent_builder.protocol.limits import FAULT_CHARS
from agent_builder.protocol.toolspec import ToolSpec

NEVER_FROM_TEXT = ("agent/delegate", "agent_delegate")


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """`name`: as the provider spelled it, bounded and printable. `fault`: why it must not run (unknown tool, or the first
    thing wrong with its arguments); `arguments` is None then, and `tool_id` is "" for an unknown tool."""

    tool_id: str
    name: str
    arguments: dict[str, object] | None
    fault: str | None
    written_as_text: bool


def propose(call: RawCall, offered: Sequence[ToolSpec]) -> ProposedCall:
    """A call from the provider's own field; its arguments may be an object or the JSON text of one."""
    return _proposed(call.name, call.arguments, offered, written_as_text=False)


def propose_written(
    calls: Sequence[WrittenCall], offered: Sequence[ToolSpec], quotations: Sequence[str], *, correction_available: bool
) -> tuple[ProposedCall, ...]:
    """The calls that an answer of text is; empty when it stays text: a quotation, a delegation, or a faulty call after
    the one correction."""
    if any(call.name in NEVER_FROM_TEXT or any(call.source in text for text in quotations) for call in calls):
        return ()
    proposed = tuple(_proposed(call.name, call.arguments, offered, written_as_text=True) for call in calls)
    if not correction_available and any(call.fault is not None for call in proposed):
        return ()
    return proposed


def _proposed(name: object, arguments: object, offered: Sequence[ToolSpec], *, written_as_text: bool) -> ProposedCall:
    spec = next((spec for spec in offered if name in (spec.provider_name, spec.id)), None)
    shown = _printable(name)
    if spec is None:
        return ProposedCall("", shown, None, f"{shown!r} is not one of the tools", written_as_text)
    value = _arguments(arguments)
    fault = spec.fault(value)
    if fault is not None or not isinstance(value, dict):
        return ProposedCall(spec.id, shown, None, f"{spec.provider_name}: {fault}", written_as_text)
    return ProposedCall(spec.id, shown, value, None, written_as_text)


def _arguments(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_json_once(value)
    except NotJson:
        return None


def _printable(name: object) -> str:
    text = name if isinstance(name, str) else ""
    return "".join(char if char.isprintable() else "?" for char in text[:FAULT_CHARS])
