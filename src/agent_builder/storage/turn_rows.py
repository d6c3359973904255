"""The values that go into and come out of the `turns` table."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from agent_builder.protocol.messages import Attachment, CompletedTurnContext, Usage
from agent_builder.storage.stamps import from_micros, from_optional


@dataclass(frozen=True, slots=True)
class TurnError:
    """Why a Turn failed, as its `run.failed` says it."""

    code: str
    stage: str
    elapsed_ms: int
    message: str


@dataclass(frozen=True, slots=True)
class TurnRow:
    """`state`: preparing, running, completed, failed, cancelled or interrupted. `attachments` of a row that was read have
    no text: what the model saw of them is in the Turn's bundle. `compact`: it was sent with the wish to compact."""

    turn_id: str
    run_id: str
    operation_id: str
    conversation_id: str
    state: str
    user_text: str
    attachments: tuple[Attachment, ...]
    assistant_text: str | None
    reason: str | None
    error: TurnError | None
    usage: Usage | None
    model_id: str | None
    created_at: datetime
    finished_at: datetime | None
    client_request_id: str | None
    compact: bool = False


@dataclass(frozen=True, slots=True)
class NewTurn:
    """`title`: for a Conversation that has none yet. `model_id` None: the default model was meant."""

    turn_id: str
    run_id: str
    operation_id: str
    conversation_id: str
    user_text: str
    attachments: tuple[Attachment, ...]
    model_id: str | None
    compact: bool
    client_request_id: str | None
    now: datetime
    title: str


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a Turn ends. `assistant_text`, `reason` and `bundle` belong to a completed one, `error` to a failed one."""

    turn_id: str
    state: str
    assistant_text: str | None
    reason: str | None
    error: TurnError | None
    usage: Usage | None
    bundle: CompletedTurnContext | None
    now: datetime


COLUMNS = """t.turn_id, t.run_id, t.operation_id, t.state, t.user_text, t.attachments, t.assistant_text, t.reason, t.error,
    t.usage, t.model_id, t.created_at, t.finished_at, t.client_request_id, t.compact"""


def read_turn(found: Sequence[Any], conversation_id: str) -> TurnRow:
    """`found` begins with COLUMNS."""
    (turn_id, run_id, operation_id, state, user_text, attachments, assistant_text, reason, error, usage, model_id,
     created, finished, client_request_id, compact) = found[:15]
    return TurnRow(
        turn_id=turn_id, run_id=run_id, operation_id=operation_id, conversation_id=conversation_id, state=state,
        user_text=user_text, attachments=_read_attachments(attachments), assistant_text=assistant_text, reason=reason,
        error=None if error is None else TurnError(**json.loads(error)),
        usage=None if usage is None else Usage(**json.loads(usage)), model_id=model_id, created_at=from_micros(created),
        finished_at=from_optional(finished), client_request_id=client_request_id, compact=bool(compact),
    )


def shown_attachments(attachments: Sequence[Attachment]) -> str:
    return json.dumps([attachment.model_dump(exclude={"text"}) for attachment in attachments])


def error_json(error: TurnError | None) -> str | None:
    return None if error is None else json.dumps(asdict(error))


def usage_json(usage: Usage | None) -> str | None:
    return None if usage is None else usage.model_dump_json()


def _read_attachments(text: str) -> tuple[Attachment, ...]:
    return tuple(Attachment(text="", **shown) for shown in json.loads(text))
