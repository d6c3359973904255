"""The host's side of a Worker-local tool: bounds and records the result that the Worker brought."""

from agent_builder.context.results import project_result
from agent_builder.protocol.digest import digest_bytes, digest_of
from agent_builder.protocol.errors import WorkerProtocol
from agent_builder.protocol.events import ToolCallFinished, ToolCallProposed, ToolCallStarted
from agent_builder.protocol.ports import Emit
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.tools.calls import CapabilityCall, CapabilityResult


async def check_local_result(call: CapabilityCall, content: str, emit: Emit) -> CapabilityResult:
    """builtin/echo is the only local tool: its result must be its argument. The event has all of it, the model sees it within
    the tool's bound. Raises WorkerProtocol otherwise."""
    if content != call.arguments.get("text"):
        raise WorkerProtocol
    receipt: dict[str, object] = {"bytes": len(content.encode()), "digest": digest_bytes(content.encode()), "text": content}
    await emit(
        ToolCallProposed(
            call_id=call.call_id, tool_id=call.tool_id, arguments_digest=digest_of(call.arguments), preview="",
            written_as_text=call.written_as_text,
        ),
        ToolCallStarted(call_id=call.call_id, tool_id=call.tool_id),
        ToolCallFinished(call_id=call.call_id, tool_id=call.tool_id, outcome="ok", receipt=receipt),
    )
    spec = CATALOG.get(call.tool_id)
    assert spec is not None
    shown = project_result(call.call_id, content, spec.result_bytes, reason="tool_bound")
    return CapabilityResult(outcome="ok", code=None, text=shown, receipt=receipt)
