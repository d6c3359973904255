"""One line of a provider's answer stream as a value. The shapes are those of Ollama's native /api/chat: every frame may
carry text, thinking and calls at once, the final one too, and an error line has none of them.
"""

from dataclasses import dataclass

from agent_builder.llm.strict_json import NotJson, parse_json, parse_json_once
from agent_builder.llm.usage import BadUsage, CheckedUsage, check_usage
from agent_builder.protocol.errors import ModelProtocol


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as the provider sent it: nothing about it has been checked."""

    name: object
    arguments: object


@dataclass(frozen=True, slots=True)
class Frame:
    """`error`: the text of an error line. `usage` and `done_reason` belong to the final frame (`done`)."""

    text: str = ""
    thinking: str = ""
    calls: tuple[RawCall, ...] = ()
    done: bool = False
    done_reason: str = ""
    usage: CheckedUsage | None = None
    error: str | None = None


def parse_frame(line: bytes) -> Frame:
    """Raises ModelProtocol for what is no frame."""
    value = _object(line)
    error = value.get("error")
    if error is not None:
        return Frame(error=error if isinstance(error, str) else str(error))
    message = value.get("message")
    if message is None:
        message = {}
    if not isinstance(message, dict) or not ("message" in value or "done" in value):
        raise ModelProtocol("The model server sent a line that is no frame.")
    text, thinking, calls = _text(message, "content"), _text(message, "thinking"), message.get("tool_calls")
    parsed = _calls(calls) if calls else ()
    if value.get("done") is not True:
        return Frame(text, thinking, parsed)
    reason = value.get("done_reason")
    return Frame(text, thinking, parsed, True, reason if isinstance(reason, str) else "", _usage(value))


def _object(line: bytes) -> dict[str, object]:
    try:
        text = line.decode()
        value = parse_json_once(text) if b'"tool_calls"' in line else parse_json(text)
    except (UnicodeDecodeError, NotJson):
        raise ModelProtocol("The model server sent a line that is not JSON.") from None
    if not isinstance(value, dict):
        raise ModelProtocol("The model server sent a line that is no frame.")
    return value


def _text(message: dict[str, object], key: str) -> str:
    value = message.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ModelProtocol("The model server sent a text that is none.")
    return value if value.isascii() else _without_surrogates(value)


def _without_surrogates(text: str) -> str:
    """Half of an escaped surrogate pair cannot be stored or sent on."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _calls(value: object) -> tuple[RawCall, ...]:
    if not isinstance(value, list):
        raise ModelProtocol("The model server sent tool calls that are no list.")
    return tuple(_call(item) for item in value)


def _call(item: object) -> RawCall:
    function = item.get("function") if isinstance(item, dict) else None
    if not isinstance(function, dict):
        raise ModelProtocol("The model server sent a tool call without a function.")
    return RawCall(function.get("name"), function.get("arguments"))


def _usage(value: dict[str, object]) -> CheckedUsage:
    try:
        return check_usage(value)
    except BadUsage:
        raise ModelProtocol("The model server reported usage that cannot be true.") from None
