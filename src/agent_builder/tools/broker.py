"""CapabilityBroker: the one way from a Worker's request to something that happens.

    call -> schema -> done before? -> policy -> (plan -> ask the operator) -> act -> result

A refusal is an answer, not an error: it says in one sentence what is wrong and what would help, because a small model can
only go on with what it is told. Every call ends in exactly one tool.call.finished.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from agent_builder.protocol.errors import PermissionExpired, RunError
from agent_builder.protocol.events import Payload, RunStage, ToolCallFinished, ToolCallProposed, ToolCallStarted
from agent_builder.protocol.limits import CALL_PREVIEW_BYTES, SEARCH_S
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import ASK, DENY, ToolSpec
from agent_builder.tools.calls import ApprovalClock, CallRecord, CapabilityCall, CapabilityResult, ToolScope, refused
from agent_builder.tools.cuts import clip
from agent_builder.tools.diff import visible
from agent_builder.tools.effects import Effect, EffectStale
from agent_builder.tools.exec_run import CommandPlace, plan_command
from agent_builder.tools.file_read import read_text, stat
from agent_builder.tools.file_search import glob, grep
from agent_builder.tools.file_write import plan_edit, plan_write
from agent_builder.tools.permissions import PermissionRequest, Permissions, policy

__all__ = ["ApprovalClock", "CallRecord", "CapabilityBroker", "CapabilityCall", "CapabilityResult", "ToolScope"]

_WRITES = frozenset(spec.id for spec in CATALOG.specs if spec.id in ("file/edit", "file/write"))
_REPEATED = {
    "ok": "This call was already done; its result stands above. Do not call it again. Answer in plain words now.",
    "denied": "The operator already denied this call; nothing was changed. Do not call it again. Answer in plain words now.",
    "outcome_unknown": "This call was tried and its outcome cannot be proven; it is not repeated. Answer in plain words now.",
}


class CapabilityBroker:
    """One per Agent. `worker_env`: the sealed directory that confined commands start from."""

    def __init__(self, permissions: Permissions, clock: Clock, worker_env: Path) -> None:
        self._permissions = permissions
        self._clock = clock
        self._worker_env = worker_env

    async def execute(self, call: CapabilityCall, scope: ToolScope) -> CapabilityResult:
        """Does the call or answers why not. Raises PermissionExpired and SandboxFailed, which end the Run."""
        spec = CATALOG.get(call.tool_id)
        answer = self._answer_at_once(call, spec, scope)
        if answer is not None:
            return await _finish(call, scope, answer, _proposed(call))
        assert spec is not None
        try:
            if policy(spec) == ASK:
                await scope.emit(_proposed(call))
                result = await self._ask(call, scope)
            else:
                await scope.emit(_proposed(call), RunStage(stage="tool"), _started(call))
                result = await asyncio.to_thread(self._look, call, scope)
        except PermissionExpired:
            await _finish(call, scope, refused("permission_expired", "the operator did not decide in time; nothing was changed"))
            raise
        except RunError as error:
            await _finish(call, scope, CapabilityResult("failed", error.code, error.message, {}))
            raise
        return await _finish(call, scope, _within(result, spec.result_bytes))

    def _answer_at_once(self, call: CapabilityCall, spec: ToolSpec | None, scope: ToolScope) -> CapabilityResult | None:
        """What needs neither disk nor operator."""
        if spec is None or policy(spec) == DENY or spec.local:
            return refused("denied_by_policy", f"the tool {clip(call.tool_id, CALL_PREVIEW_BYTES)} is not available")
        fault = spec.fault(call.arguments)
        if fault is not None:
            return refused("arguments", f"nothing was done: {fault}; {spec.provider_name} takes {spec.takes}")
        ended = scope.calls.outcome_of(call)
        if ended is None:
            return None
        return CapabilityResult(ended, "repeated", _REPEATED[ended], {"repeated": True})

    def _look(self, call: CapabilityCall, scope: ToolScope) -> CapabilityResult:
        """Blocking: tools that change nothing."""
        workspace, arguments, expired = scope.workspace, call.arguments, self._search_clock()
        match call.tool_id:
            case "file/read_text":
                return read_text(workspace, arguments, scope.reads, expired)
            case "file/stat":
                return stat(workspace, arguments, expired)
            case "file/glob":
                return glob(workspace, arguments, expired)
            case "file/grep":
                return grep(workspace, arguments, expired)
            case _:
                raise AssertionError(f"{call.tool_id} is in the catalog but has no implementation")

    def _plan(self, call: CapabilityCall, scope: ToolScope) -> Effect | CapabilityResult:
        """Blocking: what an asking tool would do."""
        workspace, arguments, expired = scope.workspace, call.arguments, self._search_clock()
        match call.tool_id:
            case "file/edit":
                return plan_edit(workspace, arguments, scope.reads, expired)
            case "file/write":
                return plan_write(workspace, arguments, scope.reads, expired)
            case "exec/run":
                directory = scope.run_root.with_name(f"{scope.run_root.name}.command")
                return plan_command(arguments, CommandPlace(workspace, directory, self._worker_env, self._clock, expired))
            case _:
                raise AssertionError(f"{call.tool_id} is in the catalog but has no implementation")

    def _search_clock(self) -> Callable[[], bool]:
        """Tells when a search has taken SEARCH_S."""
        end = self._clock.monotonic() + SEARCH_S
        return lambda: self._clock.monotonic() > end

    async def _ask(self, call: CapabilityCall, scope: ToolScope) -> CapabilityResult:
        effect = await asyncio.to_thread(self._plan, call, scope)
        if isinstance(effect, CapabilityResult):
            return effect
        request = _request(call, scope, effect)
        async with scope.approvals.waiting():
            decision = await self._permissions.ask(request, scope.emit)
        if decision.stale is not None:
            return _stale(decision.stale)
        if not decision.approved:
            return _denied(decision.reason)
        return await self._act(call, scope, effect)

    async def _act(self, call: CapabilityCall, scope: ToolScope, effect: Effect) -> CapabilityResult:
        await scope.emit(RunStage(stage="tool"), _started(call))
        doing = asyncio.create_task(effect.act())
        try:
            return await asyncio.shield(doing)
        except EffectStale as stale:
            return _stale(stale.sentence)
        except asyncio.CancelledError:
            await _record_end(call, scope, effect, doing)
            raise


async def _record_end(call: CapabilityCall, scope: ToolScope, effect: Effect, doing: asyncio.Task[CapabilityResult]) -> None:
    """The Run is over while an effect is under way. A write takes milliseconds and is done to its end, so that the journal
    says what became of it; a command is killed."""
    if effect.interruptible:
        doing.cancel()
    (end,) = await asyncio.gather(doing, return_exceptions=True)
    if isinstance(end, EffectStale):
        await _finish(call, scope, _stale(end.sentence))
    elif isinstance(end, asyncio.CancelledError):
        await _finish(call, scope, CapabilityResult("failed", "cancelled", "stopped, because the Run was cancelled", {}))
    elif isinstance(end, BaseException):
        raise end
    else:
        await _finish(call, scope, end)


async def _finish(call: CapabilityCall, scope: ToolScope, result: CapabilityResult, *before: Payload) -> CapabilityResult:
    """Records the end, with what belongs to the same boundary before it."""
    if result.outcome == "ok" and result.code is None and call.tool_id in _WRITES:
        scope.calls.forget_looks(_WRITES)
    scope.calls.add(call, result.outcome)
    finished = ToolCallFinished(
        call_id=call.call_id, tool_id=call.tool_id, outcome=result.outcome, code=result.code, receipt=result.receipt
    )
    await scope.emit(*before, finished)
    return result


def _proposed(call: CapabilityCall) -> ToolCallProposed:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return ToolCallProposed(
        call_id=call.call_id, tool_id=call.tool_id, arguments_digest=call.arguments_digest,
        preview=clip(visible(arguments), CALL_PREVIEW_BYTES), written_as_text=call.written_as_text,
    )


def _started(call: CapabilityCall) -> ToolCallStarted:
    return ToolCallStarted(call_id=call.call_id, tool_id=call.tool_id)


def _request(call: CapabilityCall, scope: ToolScope, effect: Effect) -> PermissionRequest:
    return PermissionRequest(
        run_id=scope.identity.run_id, call_id=call.call_id, tool_id=call.tool_id, preview=effect.preview, truncated=effect.truncated,
        diff=effect.diff, expires_at=scope.approvals.expires_at(), wait_s=scope.approvals.remaining_s(), check=effect.check,
    )


def _stale(sentence: str) -> CapabilityResult:
    return refused("permission_stale", f"nothing was changed: {sentence}. Read the file again before you propose another change.")


def _denied(reason: str | None) -> CapabilityResult:
    words = f' The operator says: "{reason}"' if reason else ""
    text = f"The operator denied this call; nothing was changed.{words} Do not call it again. Answer in plain words."
    return CapabilityResult("denied", "denied", text, {"reason_given": bool(reason)})


def _within(result: CapabilityResult, size: int) -> CapabilityResult:
    """Tools keep their own bounds; odd names in a sentence could still lengthen it."""
    text = clip(result.text, size)
    return CapabilityResult(result.outcome, result.code, text, {**result.receipt, "bytes": len(text.encode())})
