"""CapabilityBroker: the one way from a Worker's request to something that happens.

    call -> schema -> done before? -> policy -> (plan -> ask the operator) -> act -> result

A refusal is an answer, not an error: it says in one sentence what is wrong and what would help, because a small model can
only go on with what it is told. Every call ends in exactly one tool.call.finished.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.skills import Skills
from agent_builder.protocol.errors import PermissionExpired, RunError, SandboxFailed
from agent_builder.protocol.events import Payload, RunStage, ToolCallFinished, ToolCallProposed, ToolCallStarted
from agent_builder.protocol.limits import CALL_PREVIEW_BYTES, SEARCH_S
from agent_builder.protocol.ports import AskChild, Clock
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import ASK, DENY, FILE, ToolSpec
from agent_builder.tools.calls import ApprovalClock, CallRecord, CapabilityCall, CapabilityResult, ToolScope, refused
from agent_builder.tools.cuts import clip
from agent_builder.tools.delegate import Delegating, plan_delegate
from agent_builder.tools.document import EXTRACT_TEXT, DocumentPlace, extract_text, with_way_to_text
from agent_builder.tools.effects import Effect, EffectStale
from agent_builder.tools.exec_run import CommandPlace, plan_command
from agent_builder.tools.file_read import read_text, stat
from agent_builder.tools.file_search import glob, grep
from agent_builder.tools.file_write import plan_edit, plan_write
from agent_builder.tools.permissions import PermissionRequest, Permissions, policy
from agent_builder.tools.skills import plan_skill
from agent_builder.tools.visible_text import visible

__all__ = ["ApprovalClock", "CallRecord", "CapabilityBroker", "CapabilityCall", "CapabilityResult", "ToolScope"]

T = TypeVar("T")

_LOOK_AGAIN = ("permission_stale", "not_read", "outcome_unknown")
"""Answers after which a look that was done before is worth repeating: the file is another one than it showed, or may be."""
_REPEATED = {
    "ok": "This call was already done; its result stands above. Do not call it again. Answer in plain words now.",
    "denied": "The operator already denied this call; nothing was changed. Do not call it again. Answer in plain words now.",
    "outcome_unknown": "This call was tried and its outcome cannot be proven; it is not repeated. Answer in plain words now.",
}


class CapabilityBroker:
    """One per Agent. `worker_env`: the sealed directory that confined commands start from. `command_turn`: held by the one command
    or parser that runs, of all Agents that share it. `library`: where the Agent's research environment is, None where it is not
    installed. `skills`: what is installed in the Agent. `ask_child`: how another Agent is asked; None where there can be none."""

    def __init__(
        self, permissions: Permissions, clock: Clock, worker_env: Path, command_turn: asyncio.Lock | None = None,
        library: Callable[[], Path | None] = lambda: None, skills: Skills | None = None, ask_child: AskChild | None = None,
    ) -> None:
        self._permissions = permissions
        self._clock = clock
        self._worker_env = worker_env
        self._command_turn = command_turn or asyncio.Lock()
        self._library = library
        self._skills = skills
        self._ask_child = ask_child

    async def execute(self, call: CapabilityCall, scope: ToolScope) -> CapabilityResult:
        """Does the call or answers why not. Raises PermissionExpired and SandboxFailed, which end the Run, and whatever the
        journal raises; a workspace or disk that fails is an answer."""
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
                result = await self._allowed(call, scope)
        except PermissionExpired:
            await _finish(call, scope, refused("permission_expired", "the operator did not decide in time; nothing was changed"))
            raise
        except RunError as error:
            await _finish(call, scope, CapabilityResult("failed", error.code, error.message, {}))
            raise
        return await _finish(call, scope, _within(result, spec.result_bytes, scope))

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

    async def _allowed(self, call: CapabilityCall, scope: ToolScope) -> CapabilityResult:
        """Tools that change nothing. What is cut in the middle has left nothing behind."""
        library = await asyncio.to_thread(self._library)
        if call.tool_id != EXTRACT_TEXT:
            result = await asyncio.to_thread(_or_why_not, self._look, call, scope)
            return with_way_to_text(result, str(call.arguments.get("path"))) if library else result
        directory = scope.run_root.with_name(f"{scope.run_root.name}.document")
        place = DocumentPlace(scope.workspace, directory, self._worker_env, library, self._clock, self._search_clock, self._command_turn)
        try:
            return await extract_text(call.arguments, place)
        except OSError as error:
            return _io_error(error)

    def _look(self, call: CapabilityCall, scope: ToolScope) -> CapabilityResult:
        """Blocking: those of them that need no process."""
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
        workspace, arguments = scope.workspace, call.arguments
        match call.tool_id:
            case "file/edit":
                return plan_edit(workspace, arguments, scope.reads, self._search_clock())
            case "file/write":
                return plan_write(workspace, arguments, scope.reads, self._search_clock())
            case "exec/run":
                return plan_command(arguments, self._place(scope))
            case "agent/delegate":
                return self._plan_delegate(call, scope)
            case "skill/run":
                return plan_skill(arguments, self._skills, self._place(scope))
            case _:
                raise AssertionError(f"{call.tool_id} is in the catalog but has no implementation")

    def _place(self, scope: ToolScope) -> CommandPlace:
        directory = scope.run_root.with_name(f"{scope.run_root.name}.command")
        return CommandPlace(scope.workspace, directory, self._worker_env, self._clock, self._search_clock, self._command_turn)

    def _plan_delegate(self, call: CapabilityCall, scope: ToolScope) -> Effect | CapabilityResult:
        if self._ask_child is None:
            return refused("denied_by_policy", "there is no other Agent")
        return plan_delegate(call, Delegating(scope.identity, scope.delegate_s, scope.model_id, self._ask_child))

    def _search_clock(self) -> Callable[[], bool]:
        """Tells when a search that begins now has taken SEARCH_S."""
        end = self._clock.monotonic() + SEARCH_S
        return lambda: self._clock.monotonic() > end

    async def _ask(self, call: CapabilityCall, scope: ToolScope) -> CapabilityResult:
        effect = await asyncio.to_thread(_or_why_not, self._plan, call, scope)
        if isinstance(effect, CapabilityResult):
            return effect
        request = _request(call, scope, effect)
        async with scope.approvals.waiting():
            decision = await self._permissions.ask(request, scope.emit)
        if decision.stale is not None:
            return _stale(decision.stale, effect)
        if not decision.approved:
            return _denied(decision.reason)
        if call.arguments_digest != request.arguments_digest:
            return _stale("the call has other arguments than the one that was approved", effect)
        return await self._act(call, scope, effect)

    async def _act(self, call: CapabilityCall, scope: ToolScope, effect: Effect) -> CapabilityResult:
        await scope.emit(RunStage(stage="tool"), _started(call))
        doing = asyncio.create_task(_acted(effect))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await to_the_end(_record_end(call, scope, effect, doing))
            raise


async def _acted(effect: Effect) -> CapabilityResult:
    try:
        return await effect.act()
    except EffectStale as stale:
        return _stale(stale.sentence, effect)
    except OSError as error:
        return _io_error(error)


async def _record_end(call: CapabilityCall, scope: ToolScope, effect: Effect, doing: asyncio.Task[CapabilityResult]) -> None:
    """The Run is over while an effect is under way. A write takes milliseconds and is done to its end, so that the journal
    says what became of it; a command is killed. Neither is cut by whoever ends the Run a second time."""
    if effect.interruptible:
        doing.cancel()
    (end,) = await asyncio.gather(doing, return_exceptions=True)
    if isinstance(end, asyncio.CancelledError):
        await _finish(call, scope, CapabilityResult("failed", "cancelled", "stopped, because the Run was cancelled", {}))
    elif isinstance(end, BaseException):
        raise end
    else:
        await _finish(call, scope, end)


def _or_why_not(work: Callable[[CapabilityCall, ToolScope], T], call: CapabilityCall, scope: ToolScope) -> T | CapabilityResult:
    """Blocking. A workspace that cannot be used and a disk that fails are answers; nothing has been done yet."""
    try:
        return work(call, scope)
    except FileRefused as refusal:
        return refused(refusal.reason, f"nothing was done: {refusal.sentence}")
    except OSError as error:
        return _io_error(error)


def _io_error(error: OSError) -> CapabilityResult:
    return CapabilityResult("failed", "io_error", f"the operating system refused: {error.strerror}", {})


def _still_as_shown(effect: Effect) -> None:
    """Blocking. Raises EffectStale, also where the target cannot be looked at any more."""
    try:
        effect.check()
    except FileRefused as refusal:
        raise EffectStale(refusal.sentence) from refusal
    except OSError as error:
        raise EffectStale(f"it cannot be looked at any more ({error.strerror})") from error
    except SandboxFailed as error:
        raise EffectStale(error.message) from error


async def _finish(call: CapabilityCall, scope: ToolScope, result: CapabilityResult, *before: Payload) -> CapabilityResult:
    """Records the end, with what belongs to the same boundary before it."""
    if result.code != "repeated":
        if result.code in _LOOK_AGAIN or _has_written(call, result):
            scope.calls.forget_looks()
        scope.calls.add(call, result.outcome)
    finished = ToolCallFinished(
        call_id=call.call_id, tool_id=call.tool_id, outcome=result.outcome, code=result.code, receipt=result.receipt
    )
    await scope.emit(*before, finished)
    return result


def _has_written(call: CapabilityCall, result: CapabilityResult) -> bool:
    spec = CATALOG.get(call.tool_id)
    return result.outcome == "ok" and spec is not None and spec.effects == FILE


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
        run_id=scope.identity.run_id, call_id=call.call_id, tool_id=call.tool_id, arguments_digest=call.arguments_digest,
        preview=effect.preview, truncated=effect.truncated, diff=effect.diff, expires_at=scope.approvals.expires_at(),
        wait_s=scope.approvals.remaining_s(), check=lambda: _still_as_shown(effect),
    )


def _stale(sentence: str, effect: Effect) -> CapabilityResult:
    return refused("permission_stale", f"nothing was changed: {sentence}. {effect.again}")


def _denied(reason: str | None) -> CapabilityResult:
    words = f' The operator says: "{reason}"' if reason else ""
    text = f"The operator denied this call; nothing was changed.{words} Do not call it again. Answer in plain words."
    return CapabilityResult("denied", "denied", text, {"reason_given": bool(reason)})


def _within(result: CapabilityResult, size: int, scope: ToolScope) -> CapabilityResult:
    """Tools keep their own bounds; odd names in a sentence could still lengthen it. What is cut off does not count as read."""
    text = clip(result.text, size)
    if text != result.text:
        scope.reads.forget()
    return CapabilityResult(result.outcome, result.code, text, {**result.receipt, "bytes": len(text.encode())})
