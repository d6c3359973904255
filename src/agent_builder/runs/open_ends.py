"""What a Run has begun and not ended: whoever writes its terminal, the Run itself or recovery, ends that in the same boundary, so
that the journal has one end for each beginning.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from agent_builder.protocol.events import (
    Event,
    ModelRequestStarted,
    ModelResponseFinished,
    Outcome,
    Payload,
    PermissionRequested,
    PermissionResolved,
    ToolCallFinished,
    ToolCallProposed,
    ToolCallStarted,
    TransportAttemptFinished,
    TransportAttemptStarted,
)
from agent_builder.protocol.messages import Usage
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.protocol.toolspec import NOTHING


class OpenEnds:
    """Fed with a Run's durable events in order."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._permissions: dict[str, None] = {}
        self._tools: dict[str, tuple[str, bool]] = {}  # call id: tool id, and whether it was started
        self._attempt: Event | None = None
        self._call: int | None = None
        for event in events:
            self.note(event)

    @property
    def model_call(self) -> bool:
        """Whether a model was asked and has not answered to the end."""
        return self._call is not None

    def note(self, event: Event) -> None:
        told = event.payload
        match event.type:
            case PermissionRequested.type:
                self._permissions[str(told["permission_id"])] = None
            case PermissionResolved.type:
                self._permissions.pop(str(told["permission_id"]), None)
            case ToolCallProposed.type:
                self._tools[str(told["call_id"])] = str(told["tool_id"]), False
            case ToolCallStarted.type:
                self._tools[str(told["call_id"])] = str(told["tool_id"]), True
            case ToolCallFinished.type:
                self._tools.pop(str(told["call_id"]), None)
            case TransportAttemptStarted.type:
                self._attempt = event
            case TransportAttemptFinished.type:
                self._attempt = None
            case ModelRequestStarted.type:
                self._call = int(str(told["call"]))
            case ModelResponseFinished.type:
                self._call = None

    def closed(self, reason: str, now: datetime | None = None) -> list[Payload]:
        """The missing ends, with the code that ended the Run. `now`: when that was; None where nobody was there to see."""
        ends: list[Payload] = [PermissionResolved(permission_id=permission, decision="stale") for permission in self._permissions]
        for call_id, (tool_id, started) in self._tools.items():
            outcome: Outcome = "outcome_unknown" if started and _has_effects(tool_id) else "failed"
            ends.append(ToolCallFinished(call_id=call_id, tool_id=tool_id, outcome=outcome, code=reason, receipt={}))
        if self._attempt is not None:
            attempt = TransportAttemptStarted.model_validate(self._attempt.payload)
            ms = None if now is None else (now - self._attempt.time) // timedelta(milliseconds=1)
            ends.append(TransportAttemptFinished(call=attempt.call, attempt=attempt.attempt, outcome=reason, ms=ms))
        if self._call is not None:
            ends.append(ModelResponseFinished(call=self._call, reason=reason, usage=Usage(complete=False)))
        return ends


def _has_effects(tool_id: str) -> bool:
    """Whether a call that was cut may have changed something. Of a tool of another version that is not known."""
    spec = CATALOG.get(tool_id)
    return spec is None or spec.effects != NOTHING
