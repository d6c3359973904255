"""What goes into a Capability and what comes out, and what one Run has done so far."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.events import Outcome, RunIdentity
from agent_builder.protocol.ports import Emit
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


class CallRecord:
    """The calls of one Run that must not be done a second time. A new effect makes earlier looks worth repeating."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str], Outcome] = {}

    def outcome_of(self, call: CapabilityCall) -> Outcome | None:
        return self._ended.get((call.tool_id, call.arguments_digest))

    def add(self, call: CapabilityCall, outcome: Outcome) -> None:
        """Refused and failed calls may be tried again as they are."""
        if outcome in ("ok", "denied", "outcome_unknown"):
            self._ended[call.tool_id, call.arguments_digest] = outcome

    def forget_looks(self, effects: frozenset[str]) -> None:
        """Keeps only the calls of tools in `effects`."""
        self._ended = {key: outcome for key, outcome in self._ended.items() if key[0] in effects}


@dataclass(frozen=True, slots=True)
class ToolScope:
    """What a call may work with. One per Run: `reads` and `calls` remember across its calls."""

    identity: RunIdentity
    workspace: Path
    run_root: Path
    emit: Emit
    reads: ReadRecord
    approvals: ApprovalClock
    calls: CallRecord = field(default_factory=CallRecord)


def ok(text: str, **receipt: object) -> CapabilityResult:
    return CapabilityResult("ok", None, text, receipt)


def refused(code: str, text: str, **receipt: object) -> CapabilityResult:
    return CapabilityResult("refused", code, text, receipt)
