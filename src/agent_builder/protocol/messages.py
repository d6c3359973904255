"""What was said: the bundle of a completed Turn, as stored and as planned with, and the provider messages made from it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A stored or wire record: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Attachment(Record):
    """A workspace file sent with a message. `text`: the projected part the model saw; `digest` of the whole file."""

    path: str
    bytes: int
    digest: str
    truncated: bool
    text: str


class ToolExchange(Record):
    """One tool call and its result as the model saw it. `result` is the projected text, at most the tool's own bound."""

    call_id: str
    tool_id: str
    arguments: dict[str, object]
    written_as_text: bool
    outcome: Literal["ok", "refused", "denied", "failed", "outcome_unknown", "interrupted"]
    result: str


class Exchange(Record):
    """One step inside a Turn: either calls of one model answer with their results (`text` may precede them), or a
    `correction`: an answer that was sent back with a trusted remark."""

    text: str = ""
    calls: tuple[ToolExchange, ...] = ()
    correction: str | None = None


class CompletedTurnContext(Record):
    """The bundle of one completed Turn. `preface`: exact projected text sent behind the message (attachments, git
    status), so that the Turn is rendered again as it was. `answer` carries its truncation marker."""

    turn_id: str
    user_text: str
    preface: str = ""
    exchanges: tuple[Exchange, ...] = ()
    answer: str


class Usage(Record):
    """Tokens over a whole Run. `complete` is false when some provider call had no verifiable final frame."""

    input: int = 0
    output: int = 0
    complete: bool = True
