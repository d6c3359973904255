"""Permissions: the policy, and the questions that wait for the operator. In memory: a restart answers none of them.

    pending -> approved | denied     by the operator, once
            -> expired               when the Run's time for approvals is over
            -> stale                 when the target has changed or the Run has ended

Only `ask` creates a permission. A decision is bound to what was asked: an approval looks at the target again first.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from agent_builder.protocol.errors import InvalidRequest, NotFound, PermissionExpired, PermissionStale
from agent_builder.protocol.events import PermissionRequested, PermissionResolved, RunStage
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import DENY_REASON_BYTES, PERMISSIONS_KEPT
from agent_builder.protocol.ports import Clock, Emit
from agent_builder.protocol.toolspec import ALLOW, ASK, DENY, ToolSpec
from agent_builder.tools.effects import EffectStale


def policy(spec: ToolSpec | None) -> str:
    """allow, ask or deny; whatever is not known is denied."""
    return spec.policy if spec is not None and spec.policy in (ALLOW, ASK) else DENY


class PermissionState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    STALE = "stale"


_RESOLUTION = {
    PermissionState.APPROVED: "approve", PermissionState.DENIED: "deny", PermissionState.EXPIRED: "expired", PermissionState.STALE: "stale",
}


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """What the operator is asked. `arguments_digest`: of exactly the call that waits. `diff`: all of it; `preview`: as much as an event holds. `check` (blocking)
    raises EffectStale when something that the approval binds has changed. `wait_s`: seconds until `expires_at`."""

    run_id: str
    call_id: str
    tool_id: str
    arguments_digest: str
    preview: str
    truncated: bool
    diff: str
    expires_at: datetime
    wait_s: float
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class PermissionView:
    """`diff` only where one permission is looked at."""

    permission_id: str
    run_id: str
    call_id: str
    tool_id: str
    arguments_digest: str
    preview: str
    truncated: bool
    expires_at: datetime
    state: str
    diff: str | None = None
    decided_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason`: the operator's words with a denial. `stale`: an approval came, but the target had changed; the sentence
    says how."""

    approved: bool
    reason: str | None = None
    stale: str | None = None


@dataclass(slots=True)
class _Permission:
    permission_id: str
    request: PermissionRequest
    state: PermissionState = PermissionState.PENDING
    deciding: bool = False
    decided_at: datetime | None = None
    decision: Decision | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def settle(self, state: PermissionState, now: datetime, decision: Decision | None = None) -> None:
        """Leaves `pending`, once."""
        if self.state is not PermissionState.PENDING:
            return
        self.state, self.decided_at, self.decision = state, now, decision
        self.settled.set()

    def view(self) -> PermissionView:
        asked = self.request
        return PermissionView(
            permission_id=self.permission_id, run_id=asked.run_id, call_id=asked.call_id, tool_id=asked.tool_id,
            arguments_digest=asked.arguments_digest, preview=asked.preview, truncated=asked.truncated, expires_at=asked.expires_at, state=self.state.value, decided_at=self.decided_at,
        )


class Permissions:
    """One per Agent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: dict[str, _Permission] = {}

    async def ask(self, request: PermissionRequest, emit: Emit) -> Decision:
        """Waits for the operator. Raises PermissionExpired. Exactly one permission.resolved follows each
        permission.requested, also when the Run is cancelled."""
        permission = _Permission(new_id(), request)
        self._keep(permission)
        try:
            await emit(RunStage(stage="approval"), _requested(permission))
            async with self._clock.timeout(request.wait_s):
                await permission.settled.wait()
        except TimeoutError:
            permission.settle(PermissionState.EXPIRED, self._clock.now())
        finally:
            permission.settle(PermissionState.STALE, self._clock.now())
            await emit(PermissionResolved(permission_id=permission.permission_id, decision=_RESOLUTION[permission.state]))  # type: ignore[arg-type]
        if permission.state is PermissionState.EXPIRED:
            raise PermissionExpired
        return permission.decision or Decision(False, stale="the Run has ended")

    def pending(self) -> list[PermissionView]:
        """Oldest first."""
        return [one.view() for one in self._all.values() if one.state is PermissionState.PENDING]

    def get(self, permission_id: str) -> PermissionView:
        """With the whole diff. Raises NotFound."""
        permission = self._find(permission_id)
        return replace(permission.view(), diff=permission.request.diff)

    async def decide(self, permission_id: str, decision: str, reason: str | None = None) -> PermissionView:
        """`decision`: approve or deny. Raises NotFound, InvalidRequest, and PermissionStale for a second decision, one after
        the Run's end, or an approval of a target that has changed."""
        permission = self._find(permission_id)
        _check_decision(decision, reason)
        if permission.state is not PermissionState.PENDING or permission.deciding:
            raise PermissionStale
        if decision == "deny":
            permission.settle(PermissionState.DENIED, self._clock.now(), Decision(False, reason=reason))
        else:
            await self._approve(permission)
        return self.get(permission_id)

    def close_run(self, run_id: str) -> None:
        """Whatever waits for a decision in this Run is over."""
        for permission in self._all.values():
            if permission.request.run_id == run_id:
                permission.settle(PermissionState.STALE, self._clock.now())

    async def _approve(self, permission: _Permission) -> None:
        """Looks at the target again; meanwhile no second decision is taken, but time and the Run's end are."""
        permission.deciding = True
        try:
            await asyncio.to_thread(permission.request.check)
        except EffectStale as stale:
            permission.settle(PermissionState.STALE, self._clock.now(), Decision(False, stale=stale.sentence))
            raise PermissionStale(f"{PermissionStale.sentence} ({stale.sentence})") from stale
        finally:
            permission.deciding = False
        permission.settle(PermissionState.APPROVED, self._clock.now(), Decision(True))
        if permission.state is not PermissionState.APPROVED:
            raise PermissionStale

    def _find(self, permission_id: str) -> _Permission:
        permission = self._all.get(permission_id)
        if permission is None:
            raise NotFound
        return permission

    def _keep(self, permission: _Permission) -> None:
        """Forgets the oldest decided ones beyond the bound."""
        self._all[permission.permission_id] = permission
        decided = [key for key, one in self._all.items() if one.state is not PermissionState.PENDING]
        for key in decided[: max(0, len(self._all) - PERMISSIONS_KEPT)]:
            del self._all[key]


def _requested(permission: _Permission) -> PermissionRequested:
    asked = permission.request
    return PermissionRequested(
        permission_id=permission.permission_id, call_id=asked.call_id, tool_id=asked.tool_id, arguments_digest=asked.arguments_digest,
        preview=asked.preview, truncated=asked.truncated, expires_at=asked.expires_at,
    )


def _check_decision(decision: str, reason: str | None) -> None:
    if decision not in ("approve", "deny"):
        raise InvalidRequest("A decision is approve or deny.")
    if reason is not None and decision != "deny":
        raise InvalidRequest("A reason goes with a denial only.")
    try:
        too_long = reason is not None and len(reason.encode()) > DENY_REASON_BYTES
    except UnicodeEncodeError as error:
        raise InvalidRequest("The reason is not valid Unicode.") from error
    if too_long:
        raise InvalidRequest(f"The reason is longer than {DENY_REASON_BYTES} bytes.")
