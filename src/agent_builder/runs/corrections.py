"""The one correction of a Run: what a model is told about a call that was not executed, and how that stands in journal and
transcript. Written for a small model: it says what is wrong, what there is, and what to do next.
"""

from collections.abc import Sequence

from agent_builder.llm.broker import ProposedCall
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.events import Payload, ToolCallFinished, ToolCallProposed
from agent_builder.protocol.limits import CALL_ID_BYTES, CORRECTION_BYTES
from agent_builder.protocol.messages import ToolExchange
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import ToolSpec

_NAMELESS = "unknown"


def remark(call: ProposedCall, offered: Sequence[ToolSpec]) -> str:
    """The trusted words for this faulty call, at most CORRECTION_BYTES."""
    return _sentence(call, offered).encode()[:CORRECTION_BYTES].decode(errors="ignore")


def unexecuted(call_id: str, call: ProposedCall) -> tuple[Payload, ...]:
    """Its events."""
    tool_id, arguments = _name(call)[:CALL_ID_BYTES], call.arguments or {}
    return (
        ToolCallProposed(call_id=call_id, tool_id=tool_id, arguments_digest=digest_of(arguments), preview="", written_as_text=False),
        ToolCallFinished(call_id=call_id, tool_id=tool_id, outcome="refused", code="invalid_call", receipt={"fault": call.fault or ""}),
    )


def refused_exchange(call_id: str, call: ProposedCall, words: str) -> ToolExchange:
    """Its place in the transcript: `words` are its result."""
    return ToolExchange(
        call_id=call_id, tool_id=_name(call), arguments=call.arguments or {}, written_as_text=False, outcome="refused", result=words
    )


def _sentence(call: ProposedCall, offered: Sequence[ToolSpec]) -> str:
    if not offered:
        return "This call was not executed: there are no tools here. Answer in plain words."
    spec = CATALOG.get(call.tool_id)
    if spec is None:
        names = ", ".join(one.provider_name for one in offered)
        return f"This call was not executed: {call.fault}. Tools: {names}. Call one of them with valid arguments, or answer in plain words."
    return (
        f"This call was not executed: {call.fault}. {spec.provider_name} takes {spec.takes}. "
        "Call it again with valid arguments, or answer in plain words."
    )


def _name(call: ProposedCall) -> str:
    """A provider's template may not stand a call without a name."""
    return call.tool_id or call.name or _NAMELESS
