"""IPC frames, protocol version 2. The Worker asks, the host answers.

Host to Worker: Start, UserText, ModelText, ModelDone, ModelFailed, ToolResult. Worker to host: Ready, ModelCall, ToolCall, LocalResult,
Final, Failed. Plain classes of the standard library only: the Worker loads this file. `parse` checks names, types and
bounds of every field and refuses unknown ones.
"""

from typing import Any, NamedTuple

from agent_builder.protocol.ids import is_id
from agent_builder.protocol.limits import (
    CALL_ID_BYTES,
    ECHO_BYTES,
    IPC_TEXT_BYTES,
    IPC_VERSION,
    TOOLS_IN_CATALOG,
)

Json = dict[str, object]


class FrameError(Exception):
    """A frame with an unknown kind or field, or a value of the wrong type or size."""


class Reference(NamedTuple):
    """What the Worker knows of a plan or toolset: its id and digest."""

    id: str
    digest: str


class Start(NamedTuple):
    agent_id: str
    conversation_id: str
    turn_id: str
    run_id: str
    tool_ids: list[str]
    plan: Reference
    toolset: Reference
    model_calls: int
    tool_calls: int
    several_calls: bool


class UserText(NamedTuple):
    """A part of this Turn's message, in order; escaping may double a text, so one frame cannot hold the longest message.
    The loop begins after the part marked `last`."""

    text: str
    last: bool


class ModelText(NamedTuple):
    """Merged answer text of model call number `call` (from 1)."""

    call: int
    text: str


class CallProposal(NamedTuple):
    """One tool call as the Broker understood it; `call_id` is made by the host and unique in the Run."""

    call_id: str
    tool_id: str
    arguments: Json


class ModelDone(NamedTuple):
    """End of a model call. With `calls` empty the text is the answer. `correction` marks an answer that the host
    has already answered with a correction: the Worker asks the model again."""

    call: int
    calls: list[CallProposal]
    correction: bool


class ModelFailed(NamedTuple):
    call: int
    code: str


class ToolResult(NamedTuple):
    """A brokered call is over. `outcome`: ok, refused, denied, failed or outcome_unknown."""

    call_id: str
    outcome: str


class Ready(NamedTuple):
    version: int
    pid: int
    catalog_digest: str


class ModelCall(NamedTuple):
    plan: Reference
    toolset: Reference
    result_call_ids: list[str]


class ToolCall(NamedTuple):
    call_id: str
    tool_id: str
    arguments: Json


class LocalResult(NamedTuple):
    """The result of a Worker-local tool."""

    call_id: str
    content: str


class Final(NamedTuple):
    """The answer of model call `call` shall be this Turn's answer."""

    call: int


class Failed(NamedTuple):
    code: str


HostFrame = Start | UserText | ModelText | ModelDone | ModelFailed | ToolResult
WorkerFrame = Ready | ModelCall | ToolCall | LocalResult | Final | Failed

WORKER_FAILURES = ("model_tool_loop", "worker_protocol", "internal")
OUTCOMES = ("ok", "refused", "denied", "failed", "outcome_unknown")

_HOST: dict[str, type[Any]] = {
    "start": Start, "user_text": UserText, "model_text": ModelText, "model_done": ModelDone, "model_failed": ModelFailed, "tool_result": ToolResult,
}
_WORKER: dict[str, type[Any]] = {
    "ready": Ready, "model_call": ModelCall, "tool_call": ToolCall, "local_result": LocalResult, "final": Final, "failed": Failed,
}
_KIND = {frame: kind for kind, frame in {**_HOST, **_WORKER}.items()}


def to_message(frame: HostFrame | WorkerFrame) -> Json:
    """The JSON object of a frame: its fields and `kind`."""
    message: Json = {"kind": _KIND[type(frame)]}
    for name, value in frame._asdict().items():
        message[name] = _plain(value)
    return message


def parse_host(message: Json) -> HostFrame:
    frame: HostFrame = _parse(message, _HOST)
    return frame


def parse_worker(message: Json) -> WorkerFrame:
    frame: WorkerFrame = _parse(message, _WORKER)
    return frame


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value._asdict() if isinstance(value, (Reference, CallProposal)) else value


def _parse(message: Json, kinds: dict[str, type[Any]]) -> Any:
    kind = message.get("kind")
    frame = kinds.get(kind) if isinstance(kind, str) else None
    if frame is None:
        raise FrameError("unknown kind")
    return _record(frame, {key: value for key, value in message.items() if key != "kind"})


def _record(record: type[Any], fields: Json) -> Any:
    names: tuple[str, ...] = record._fields
    if set(fields) != set(names):
        raise FrameError(f"{record.__name__}: wrong fields")
    return record(**{name: _CHECKS[name](fields[name]) for name in names})


def _text(bound: int) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str) or len(value) > bound or len(value.encode("utf-8", "surrogatepass")) > bound:
            raise FrameError("text expected within its bound")
        return value

    return check


def _identity(value: object) -> str:
    if not is_id(value):
        raise FrameError("id expected")
    return str(value)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise FrameError("count expected")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise FrameError("true or false expected")
    return value


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise FrameError("object expected")
    return value


def _list_of(check: Any) -> Any:
    def checks(value: object) -> list[Any]:
        if not isinstance(value, list) or len(value) > TOOLS_IN_CATALOG:
            raise FrameError("list expected within its bound")
        return [check(one) for one in value]

    return checks


def _reference(value: object) -> Any:
    return _record(Reference, _object(value))


def _proposal(value: object) -> Any:
    return _record(CallProposal, _object(value))


def _version(value: object) -> int:
    if value != IPC_VERSION or type(value) is not int:
        raise FrameError("wrong protocol version")
    return IPC_VERSION


def _outcome(value: object) -> str:
    if value not in OUTCOMES:
        raise FrameError("unknown outcome")
    return str(value)


_NAME = _text(CALL_ID_BYTES)
_CHECKS: dict[str, Any] = {
    "agent_id": _identity, "conversation_id": _identity, "turn_id": _identity, "run_id": _identity,
    "last": _flag, "tool_ids": _list_of(_NAME), "plan": _reference, "toolset": _reference,
    "model_calls": _count, "tool_calls": _count, "several_calls": _flag, "id": _identity, "digest": _NAME,
    "call": _count, "text": _text(IPC_TEXT_BYTES), "calls": _list_of(_proposal), "correction": _flag,
    "call_id": _NAME, "tool_id": _NAME, "arguments": _object, "code": _NAME, "outcome": _outcome,
    "version": _version, "pid": _count, "catalog_digest": _NAME, "result_call_ids": _list_of(_NAME),
    "content": _text(ECHO_BYTES),
}
