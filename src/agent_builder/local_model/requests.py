"""ChatRequest: the body of POST /api/chat, checked the way Ollama checks it, and its translation for llama.cpp.

Source of the shapes and error texts: Ollama's API documentation and recorded answers of a real server.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from agent_builder.local_model import bounds

GO_TYPES: dict[type, str] = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION = re.compile(r"([-+]?)((?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+)")
INTEGER_OPTIONS = ("num_ctx", "num_predict", "num_keep", "seed", "top_k", "repeat_last_n", "num_batch", "num_gpu", "num_thread")
FLOAT_OPTIONS = ("temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
SAMPLING_DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "repeat_penalty": 1.0, "repeat_last_n": bounds.REPEAT_LAST_N}
SENT_OPTIONS = (*FLOAT_OPTIONS, "top_k", "repeat_last_n", "seed", "stop")
SCHEMA_KEYS = ("type", "items", "description", "enum", "anyOf", "properties", "required", "$defs")
THINK_LEVELS = ("low", "medium", "high", "max")


class OllamaError(Exception):
    """An answer with an error status: `{"error": text}`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """`messages` and `tools` are in llama.cpp's (OpenAI's) shape; `keep_alive_s` is negative for "for ever", None when absent."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    options: dict[str, Any]
    stream: bool = True
    truncate: bool = True
    shift: bool = True
    think: bool | str | None = None
    format: str | dict[str, Any] | None = None
    keep_alive_s: float | None = None
    sampling: dict[str, Any] = field(default_factory=dict)

    @property
    def num_ctx(self) -> int:
        return int(self.options.get("num_ctx") or bounds.NUM_CTX)


def parse_chat(body: dict[str, Any]) -> ChatRequest:
    """Raises OllamaError (400) where Ollama refuses the JSON itself. Option types are checked later, as Ollama does."""
    options = _typed(body, "options", dict, "map[string]interface {}") or {}
    return ChatRequest(
        model=_typed(body, "model", str, "string") or "",
        messages=[_message(each) for each in _objects(body, "messages", "api.Message")],
        tools=[_tool(each) for each in _objects(body, "tools", "api.Tool")],
        options=options,
        stream=_flag(body, "stream"),
        truncate=_flag(body, "truncate"),
        shift=_flag(body, "shift"),
        think=_think(body.get("think")),
        format=_format(body.get("format")),
        keep_alive_s=_keep_alive(body.get("keep_alive")),
    )


def check_options(options: dict[str, Any]) -> None:
    """Raises OllamaError (500) for an option of a wrong type; unknown names are ignored."""
    for name in INTEGER_OPTIONS:
        _number_option(options, name, "integer")
    for name in FLOAT_OPTIONS:
        _number_option(options, name, "float32")
    stop = options.get("stop")
    if stop is not None and not (isinstance(stop, list) and all(isinstance(each, str) for each in stop)):
        raise OllamaError(500, 'option "stop" must be of type array')


def llama_body(request: ChatRequest, slot: int, think: bool | None) -> dict[str, Any]:
    """The request for llama.cpp's chat completion. `think` is None for a model that cannot think."""
    options = {**SAMPLING_DEFAULTS, **{k: v for k, v in request.options.items() if v is not None}}
    body: dict[str, Any] = {name: options[name] for name in SENT_OPTIONS if name in options}
    body |= {
        "messages": request.messages,
        "stream": True,
        "return_progress": True,
        "cache_prompt": True,
        "id_slot": slot,
        "n_predict": _output(options, request.num_ctx),
    }
    if request.tools:
        body |= {"tools": request.tools, "tool_choice": "auto", "parallel_tool_calls": True}
    if think is not None:
        body |= {"chat_template_kwargs": {"enable_thinking": think}, "reasoning_format": "deepseek"}
    if request.format == "json":
        body["response_format"] = {"type": "json_object"}
    elif isinstance(request.format, dict):
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": request.format}}
    return body


def _output(options: dict[str, Any], window: int) -> int:
    wanted, most = int(options.get("num_predict", -1)), 10 * window
    return most if wanted < 0 or wanted > most else max(1, wanted)


def _typed(body: dict[str, Any], key: str, kind: type, go_type: str) -> Any:
    value = body.get(key)
    if value is None or (isinstance(value, kind) and not (kind is not bool and isinstance(value, bool))):
        return value
    raise OllamaError(400, f"json: cannot unmarshal {GO_TYPES[type(value)]} into Go struct field ChatRequest.{key} of type {go_type}")


def _flag(body: dict[str, Any], key: str) -> bool:
    value = _typed(body, key, bool, "bool")
    return True if value is None else bool(value)


def _objects(body: dict[str, Any], key: str, go_type: str) -> list[dict[str, Any]]:
    values = _typed(body, key, list, f"[]{go_type}") or []
    for value in values:
        if not isinstance(value, dict):
            raise OllamaError(400, f"json: cannot unmarshal {GO_TYPES.get(type(value), 'null')} into Go struct field ChatRequest.{key} of type {go_type}")
    return list(values)


def _message(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise OllamaError(400, f"json: cannot unmarshal {GO_TYPES[type(content)]} into Go struct field ChatRequest.messages.content of type string")
    if message.get("images"):
        raise OllamaError(400, "this model is missing data required for image input")
    translated: dict[str, Any] = {"role": str(message.get("role", "")).lower(), "content": content or ""}
    calls = message.get("tool_calls")
    if calls:
        translated["tool_calls"] = [_call(call, position) for position, call in enumerate(calls)]
    if message.get("thinking"):
        translated["reasoning_content"] = str(message["thinking"])
    if translated["role"] == "tool":
        translated["tool_call_id"] = str(message.get("tool_call_id") or "")
        translated["name"] = str(message.get("tool_name") or "")
    return translated


def _call(call: Any, position: int) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise OllamaError(400, "json: cannot unmarshal value into Go struct field ChatRequest.messages.tool_calls of type api.ToolCall")
    arguments = function.get("arguments")
    if not isinstance(arguments, dict | None):
        raise OllamaError(400, "Value looks like object, but can't find closing '}' symbol")
    name = str(function.get("name", ""))
    return {"id": str(call.get("id") or f"call_{position}"), "type": "function", "function": {"name": name, "arguments": arguments or {}}}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, dict):
        raise OllamaError(400, "json: cannot unmarshal value into Go struct field ChatRequest.tools.function of type api.ToolFunction")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise OllamaError(400, "json: cannot unmarshal value into Go struct field ChatRequest.tools.function.parameters of type api.ToolFunctionParameters")
    kept = {"name": str(function.get("name", "")), "description": str(function.get("description", ""))}
    return {"type": "function", "function": {**kept, "parameters": _schema(parameters or {"type": "object", "properties": {}})}}


def _schema(schema: Any) -> Any:
    """What Ollama keeps of a JSON Schema: bounds, patterns and references are dropped silently."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key in SCHEMA_KEYS}
    for key in ("properties", "$defs"):
        if isinstance(kept.get(key), dict):
            kept[key] = {name: _schema(value) for name, value in kept[key].items()}
    if "items" in kept:
        kept["items"] = _schema(kept["items"])
    if isinstance(kept.get("anyOf"), list):
        kept["anyOf"] = [_schema(value) for value in kept["anyOf"]]
    return kept


def _think(value: Any) -> bool | str | None:
    if value is None or isinstance(value, bool):
        return value
    if value in THINK_LEVELS:
        return str(value)
    raise OllamaError(400, f'invalid think value: {str(value)!r} (must be "high", "medium", "low", "max", true, or false)')


def _format(value: Any) -> str | dict[str, Any] | None:
    if value is None or value == "" or value == "json" or isinstance(value, dict):
        return value or None
    raise OllamaError(400, f'invalid format: {value!r}; expected "json" or a valid JSON Schema object')


def _keep_alive(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise OllamaError(400, f"Unsupported type: '{type(value).__name__}'")
    if value in ("0", "+0", "-0"):
        return 0.0
    match = DURATION.fullmatch(value)
    if match is None:
        raise OllamaError(400, f'time: {"missing unit in" if value.lstrip("-+").isdigit() else "invalid"} duration "{value}"')
    parts = re.findall(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)", match[2])
    seconds = sum(float(number) * DURATION_UNITS[unit] for number, unit in parts)
    return -seconds if match[1] == "-" else seconds


def _number_option(options: dict[str, Any], name: str, kind: str) -> None:
    value = options.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise OllamaError(500, f'option "{name}" must be of type {kind}')
