"""What goes into a Capability and what comes out, and what one Run has done so far."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.events import Outcome, RunIdentity
from agent_builder.protocol.limits import DELEGATE_S
from agent_builder.protocol.ports import Emit
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import FILE
from agent_builder.tools.reads import ReadRecord


@dataclass(frozen=True, slots=True)
class CapabilityCall:
    """A call as the Worker took it up; `arguments` satisfy the ToolSpec's schema or are refused."""

    call_id: str
    tool_id: str
    arguments: dict[str, object]
    written_as_text: bool

    @property
    def arguments_digest(self) -> str:
        try:
            return digest_of(self.arguments)
        except (TypeError, ValueError):
            return digest_of(repr(self.arguments))  # no JSON: it will be refused, but recorded


@dataclass(frozen=True, slots=True)
class CapabilityResult:
    """`text` is what the model sees, within the tool's bound; `receipt` holds bounded facts for the journal, never text of
    a file; `code` is a stable word for every outcome but a plain ok."""

    outcome: Outcome
    code: str | None
    text: str
    receipt: dict[str, object]


class ApprovalClock(Protocol):
    """The Run's clock, which stands still while the operator decides."""

    def waiting(self) -> AbstractAsyncContextManager[None]: ...

    def expires_at(self) -> datetime: ...

    def remaining_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class _Ended:
    outcome: Outcome
    path: str | None  # of a write

    def undone_by(self, path: str | None) -> bool:
        """Whether a later write to the same file may have taken back what this call did."""
        return self.outcome == "ok" and self.path is not None and self.path == path


class CallRecord:
    """The calls of one Run that must not be done a second time, as long as what they did or found still holds."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str], _Ended] = {}

    def outcome_of(self, call: CapabilityCall) -> Outcome | None:
        ended = self._ended.get((call.tool_id, call.arguments_digest))
        return ended.outcome if ended else None

    def add(self, call: CapabilityCall, outcome: Outcome) -> None:
        """Refused and failed calls may be tried again as they are."""
        if outcome not in ("ok", "denied", "outcome_unknown"):
            return
        path = _written(call)
        if outcome != "denied":
            self._ended = {key: ended for key, ended in self._ended.items() if not ended.undone_by(path)}
        self._ended[call.tool_id, call.arguments_digest] = _Ended(outcome, path)

    def forget_looks(self) -> None:
        """Reads, searches and commands may be done again: a file is another one now, or their result was cut away."""
        self._ended = {key: ended for key, ended in self._ended.items() if ended.path is not None or ended.outcome == "denied"}


def _written(call: CapabilityCall) -> str | None:
    spec = CATALOG.get(call.tool_id)
    return str(call.arguments.get("path")).removeprefix("./") if spec is not None and spec.effects == FILE else None


@dataclass(frozen=True, slots=True)
class ToolScope:
    """What a call may work with. One per Run: `reads` and `calls` remember across its calls. `delegate_s`: seconds of a delegation.
    `model_id`: the Run's model."""

    identity: RunIdentity
    workspace: Path
    run_root: Path
    emit: Emit
    reads: ReadRecord
    approvals: ApprovalClock
    calls: CallRecord = field(default_factory=CallRecord)
    delegate_s: float = DELEGATE_S
    model_id: str = ""

    def forget_shown(self) -> None:
        """Results were cut away before the model saw them: nothing counts as read, and what was looked at may be looked at again."""
        self.reads.forget()
        self.calls.forget_looks()


def ok(text: str, **receipt: object) -> CapabilityResult:
    return CapabilityResult("ok", None, text, receipt)


def refused(code: str, text: str, **receipt: object) -> CapabilityResult:
    return CapabilityResult("refused", code, text, receipt)
