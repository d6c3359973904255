"""What clients send: one model per body and per query. Unknown fields are refused."""

import re
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from agent_builder.protocol.ids import is_id
from agent_builder.protocol.limits import (
    ATTACHMENTS,
    DENY_REASON_BYTES,
    MESSAGE_BYTES,
    MODEL_ID_BYTES,
    PATH_BYTES,
    REPLAY_PAGE,
    SEQ_MAX,
    SLASH_INPUT_BYTES,
    SSE_RUNS,
    TITLE_CHARS,
    WORKSPACE_LIST,
)

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RUN_POSITION = {"pattern": f"^{_UUID}/{_UUID}@[0-9]{{1,15}}$"}
_WORDS = {"pattern": r"^[^/\u0000-\u0008\u000b-\u001f\u007f-\u009f][^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$"}
_ONE_LINE = {"pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e]*[^\s\u0000-\u001f\u007f-\u009f\u2028-\u202e][^\u0000-\u001f\u007f-\u009f\u2028-\u202e]*$"}


class Body(BaseModel):
    """A request body: types are taken as they stand."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Query(BaseModel):
    """A query string: each name at most once unless it is a list; values are text."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _identifier(text: str) -> str:
    if not is_id(text):
        raise ValueError("must be a lower-case UUID")
    return text


def _message(text: str) -> str:
    if not 0 < len(text.encode()) <= MESSAGE_BYTES:
        raise ValueError(f"must have 1 to {MESSAGE_BYTES} UTF-8 bytes")
    if any(unicodedata.category(sign) == "Cc" and sign not in "\n\t" for sign in text):
        raise ValueError("must not hold control characters other than line feed and tab")
    if text.startswith("/"):
        raise ValueError("begins with / and is a command, which never reaches a model: send it to the commands of the Conversation")
    return text


def _number(value: Any) -> Any:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        raise ValueError("must be a number in decimal digits")
    return int(value)


def _whole(value: Any) -> Any:
    """JSON knows no integers: 2.0 is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _at_most(limit: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text.encode()) > limit:
            raise ValueError(f"must have at most {limit} UTF-8 bytes")
        return text

    return AfterValidator(check)


IdText = Annotated[str, AfterValidator(_identifier), Field(json_schema_extra={"format": "uuid", "pattern": f"^{_UUID}$"})]
Message = Annotated[str, AfterValidator(_message), Field(max_length=MESSAGE_BYTES, min_length=1, json_schema_extra=_WORDS)]
Title = Annotated[
    str,
    Field(
        min_length=1, description=f"1 to {TITLE_CHARS} visible characters after trimming, on one line",
        json_schema_extra={"maxLength": TITLE_CHARS, **_ONE_LINE},
    ),
]
PathText = Annotated[str, _at_most(PATH_BYTES), Field(max_length=PATH_BYTES)]
ModelId = Annotated[str, _at_most(MODEL_ID_BYTES), Field(min_length=1, max_length=MODEL_ID_BYTES)]
Position = Annotated[int, Field(ge=0, le=SEQ_MAX), BeforeValidator(_number)]


class ArchiveBody(Body):
    """The bytes of a skill archive: the one body that is no JSON."""

    content: bytes


class EmptyBody(Body):
    """Nothing, or an object without fields."""


class LoginBody(Body):
    token: str


class CreateAgentBody(Body):
    name: Title


class RenameAgentBody(Body):
    name: Title


class CreateConversationBody(Body):
    """Without a title the Conversation is named after its first message."""

    title: Title | None = None


class RenameConversationBody(Body):
    title: Title


class ContinueBody(Body):
    mode: Literal["continue", "branch"]


class CancelPreparationBody(Body):
    operation_id: IdText


class SubmitBody(Body):
    """One message. The same `client_request_id` gives the same Turn again."""

    message: Message
    attachments: Annotated[list[Annotated[PathText, Field(min_length=1)]], Field(max_length=ATTACHMENTS)] = []
    model_id: ModelId | None = None
    compact: bool = False
    client_request_id: IdText | None = None


class SlashBody(Body):
    input: Annotated[
        str, _at_most(SLASH_INPUT_BYTES), Field(min_length=1, max_length=SLASH_INPUT_BYTES, json_schema_extra={"pattern": "^/"})
    ]


class DecisionBody(Body):
    """`reason` only with a denial: the model reads it as the operator's words."""

    decision: Literal["approve", "deny"]
    reason: Annotated[str, _at_most(DENY_REASON_BYTES), Field(max_length=DENY_REASON_BYTES)] | None = None


class SubmitTaskBody(Body):
    """The one kind of work that may be started beside a Run."""

    kind: Literal["runtime-compile"]


class SkillBody(Body):
    active: bool


class RevealBody(Body):
    """`section`: the index that the context metadata shows."""

    section: Annotated[int, Field(ge=0, le=SEQ_MAX), BeforeValidator(_whole)]


class NoQuery(Query):
    """This address takes no query."""


class PageQuery(Query):
    before: Annotated[str, Field(max_length=PATH_BYTES)] | None = None


class PreviewQuery(Query):
    model_id: ModelId | None = None


class ReplayQuery(Query):
    after_seq: Position = 0
    limit: Annotated[int, Field(ge=1, le=REPLAY_PAGE), BeforeValidator(_number)] = REPLAY_PAGE


class WorkspaceQuery(Query):
    prefix: PathText = ""
    limit: Annotated[int, Field(ge=1, le=WORKSPACE_LIST), BeforeValidator(_number)] = WORKSPACE_LIST


class FileQuery(Query):
    path: Annotated[PathText, Field(min_length=1)]


class StreamsQuery(Query):
    """`run`: `<agent-id>/<run-id>@<after-seq>`, repeatable."""

    run: Annotated[list[Annotated[str, Field(json_schema_extra=_RUN_POSITION)]], Field(min_length=1, max_length=SSE_RUNS, json_schema_extra={"uniqueItems": True})]
