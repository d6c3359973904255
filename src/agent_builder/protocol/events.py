"""Canonical events: the envelope and one payload model per type. Whether a type is durable is a property of its payload."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from agent_builder.protocol.ids import new_id
from agent_builder.protocol.messages import Record, Usage

Outcome = Literal["ok", "refused", "denied", "failed", "outcome_unknown"]
Stage = Literal[
    "preparing", "loading_model", "evaluating_prompt", "cancelled_prompt", "model_queue", "summarising", "thinking", "answering", "tool",
    "approval",
]


class Payload(Record):
    type: ClassVar[str]
    durable: ClassVar[bool] = True
    terminal: ClassVar[bool] = False


class AttachedFile(Record):
    """A workspace file that was read for a message: `bytes` and `digest` of all of it; `truncated`: only its beginning was shown."""

    path: str
    bytes: int
    digest: str
    truncated: bool


class RunStarted(Payload):
    """Admission committed. Budgets in calls and seconds; tokens for the window. `attachments`: absent where there are none."""

    type: ClassVar[str] = "run.started"
    plan_id: str
    plan_digest: str
    toolset_digest: str
    sections: int
    model_id: str
    model_calls: int
    tool_calls: int
    run_s: float
    window: int
    input_budget: int
    admission_tokens: int
    history_included: int
    history_omitted: int
    history_collapsed: int
    attachments: list[AttachedFile] | None = None


class ModelRequestStarted(Payload):
    """`call` counts provider calls, `round` logical rounds, `attempt` recovery attempts within a round; each from 1."""

    type: ClassVar[str] = "model.request.started"
    call: int
    round: int
    attempt: int


class ModelResponseFinished(Payload):
    type: ClassVar[str] = "model.response.finished"
    call: int
    reason: str
    usage: Usage


class TransportAttemptStarted(Payload):
    type: ClassVar[str] = "model.transport.attempt.started"
    call: int
    attempt: int


class TransportAttemptFinished(Payload):
    """`outcome`: first_frame or an error code; `ms` until then, left out where nobody saw it end."""

    type: ClassVar[str] = "model.transport.attempt.finished"
    call: int
    attempt: int
    outcome: str
    ms: int | None = None


class ModelRecoveryStarted(Payload):
    type: ClassVar[str] = "model.recovery.started"
    call: int
    reason: str


class RunStage(Payload):
    type: ClassVar[str] = "run.stage"
    durable: ClassVar[bool] = False
    stage: Stage
    expected_s: float | None = None


class ThinkingDelta(Payload):
    type: ClassVar[str] = "thinking.block.delta"
    durable: ClassVar[bool] = False
    text: str


class AssistantDelta(Payload):
    type: ClassVar[str] = "assistant.block.delta"
    durable: ClassVar[bool] = False
    text: str


class AssistantMessage(Payload):
    type: ClassVar[str] = "assistant.message"
    text: str


class ToolCallProposed(Payload):
    type: ClassVar[str] = "tool.call.proposed"
    call_id: str
    tool_id: str
    arguments_digest: str
    preview: str
    written_as_text: bool


class ToolCallStarted(Payload):
    type: ClassVar[str] = "tool.call.started"
    call_id: str
    tool_id: str


class ToolCallFinished(Payload):
    """`receipt`: bounded facts of the result (bytes, digests, truncation), never the text itself."""

    type: ClassVar[str] = "tool.call.finished"
    call_id: str
    tool_id: str
    outcome: Outcome
    code: str | None = None
    receipt: dict[str, object]


class PermissionRequested(Payload):
    """`arguments_digest`: of the call that waits, as in its proposal; absent in journals of earlier versions."""

    type: ClassVar[str] = "permission.requested"
    permission_id: str
    call_id: str
    tool_id: str
    arguments_digest: str | None = None
    preview: str
    truncated: bool
    expires_at: datetime


class PermissionResolved(Payload):
    type: ClassVar[str] = "permission.resolved"
    permission_id: str
    decision: Literal["approve", "deny", "expired", "stale"]


class RunCompleted(Payload):
    type: ClassVar[str] = "run.completed"
    terminal: ClassVar[bool] = True
    reason: Literal["stop", "max_output", "repetition_truncated"]
    usage: Usage
    elapsed_ms: int


class RunFailed(Payload):
    type: ClassVar[str] = "run.failed"
    terminal: ClassVar[bool] = True
    code: str
    stage: str
    retryable: bool
    elapsed_ms: int
    message: str
    usage: Usage


class RunCancelled(Payload):
    type: ClassVar[str] = "run.cancelled"
    terminal: ClassVar[bool] = True
    usage: Usage
    elapsed_ms: int


class RunInterrupted(Payload):
    type: ClassVar[str] = "run.interrupted"
    terminal: ClassVar[bool] = True
    usage: Usage


PAYLOADS: tuple[type[Payload], ...] = (
    RunStarted, ModelRequestStarted, ModelResponseFinished, TransportAttemptStarted, TransportAttemptFinished, ModelRecoveryStarted,
    RunStage, ThinkingDelta, AssistantDelta, AssistantMessage, ToolCallProposed, ToolCallStarted, ToolCallFinished,
    PermissionRequested, PermissionResolved, RunCompleted, RunFailed, RunCancelled, RunInterrupted,
)
BY_TYPE: dict[str, type[Payload]] = {payload.type: payload for payload in PAYLOADS}
TERMINAL_TYPES = frozenset(payload.type for payload in PAYLOADS if payload.terminal)


class Event(Record):
    """The envelope. `from_seq`: a merged delta stands for from_seq..seq. `payload` is a dump of the type's payload model."""

    v: Literal[1] = 1
    event_id: str
    agent_id: str
    conversation_id: str
    turn_id: str
    run_id: str
    seq: Annotated[int, Field(ge=1)]
    from_seq: int | None = None
    time: datetime
    type: str
    durability: Literal["durable", "ephemeral"]
    payload: dict[str, object]

    @property
    def terminal(self) -> bool:
        return self.type in TERMINAL_TYPES

    def to_json(self) -> str:
        """One line of JSON; `from_seq` only where it is set."""
        return self.model_dump_json(exclude={"from_seq"} if self.from_seq is None else None)


class RunIdentity(Record):
    """Whose events these are."""

    agent_id: str
    conversation_id: str
    turn_id: str
    run_id: str


def make_event(identity: RunIdentity, seq: int, time: datetime, payload: Payload) -> Event:
    return Event(
        event_id=new_id(), agent_id=identity.agent_id, conversation_id=identity.conversation_id, turn_id=identity.turn_id,
        run_id=identity.run_id, seq=seq, time=time, type=payload.type,
        durability="durable" if payload.durable else "ephemeral", payload=payload.model_dump(mode="json", exclude_none=True),
    )


class Control(Record):
    """A frame of a stream that is no event: it has no seq and is never stored. `turn` is the Turn object of a snapshot."""

    kind: Literal["gap", "snapshot", "resync", "gone", "storage_full"]
    from_seq: int | None = None
    to_seq: int | None = None
    turn: dict[str, object] | None = None
    run_id: str | None = None

    def to_json(self) -> str:
        return self.model_dump_json(exclude_none=True)
