"""chat: one POST /api/chat from the checked request to its last frame."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from agent_builder.local_model import bounds
from agent_builder.local_model.engine import SLOT_WITH_TOOLS, SLOT_WITHOUT_TOOLS, ClientGone, Engine, Gone
from agent_builder.local_model.ollama_shapes import MILLION, Model, call_frame, frame, last_frame
from agent_builder.local_model.requests import ChatRequest, OllamaError, check_options, llama_body

OVERFLOW = "the input length exceeds the context length"
Put = Callable[[dict[str, Any]], None]


def answer_chat(engine: Engine, model: Model, request: ChatRequest, put: Put, gone: Gone) -> dict[str, int]:
    """Gives every frame to `put` and returns the usage, for the log with how many prompt tokens had to be read. Raises
    OllamaError before the first frame, ClientGone when nobody listens."""
    started = time.monotonic_ns()
    think = _wanted_thinking(model, request)
    check_options(request.options)
    if not request.messages:
        return _load_or_unload(engine, model, request, put, gone)
    with engine.turnstile.entered(gone):
        try:
            load_ns = engine.load(model, request.num_ctx, request.shift)
            body = llama_body(request, SLOT_WITH_TOOLS if request.tools else SLOT_WITHOUT_TOOLS, think)
            answer = _run(engine, model, request, body, put, gone)
        finally:
            if engine.model is not None:
                engine.keep(request.keep_alive_s)
    total = {"total_duration": time.monotonic_ns() - started, "load_duration": load_ns}
    last = last_frame(model.name, answer.reason, {**total, **answer.usage()})
    put({**last, "prompt_eval_cached_count": answer.cached})  # zero too: a count that is left out is an unknown one
    return {**answer.usage(), "prompt_read": answer.prompt_read}


def _wanted_thinking(model: Model, request: ChatRequest) -> bool | None:
    capable = "thinking" in model.capabilities
    if request.tools and "tools" not in model.capabilities:
        raise OllamaError(400, f"{model.name} does not support tools")
    if request.think and not capable:
        raise OllamaError(400, f'"{model.name}" does not support thinking')
    return None if not capable else request.think is None or bool(request.think)


def _load_or_unload(engine: Engine, model: Model, request: ChatRequest, put: Put, gone: Gone) -> dict[str, int]:
    if request.keep_alive_s == 0:
        with engine.turnstile.entered(gone):
            if engine.model is model:
                engine.keep(0)
        put(last_frame(model.name, "unload"))
        return {}
    is_loaded = partial(engine.holds, model, request.num_ctx, request.shift)
    with engine.turnstile.entered(gone, unless=is_loaded) as ours:
        if ours:
            engine.load(model, request.num_ctx, request.shift)
            engine.keep(request.keep_alive_s)
    put(last_frame(model.name, "load"))
    return {}


def _run(engine: Engine, model: Model, request: ChatRequest, body: dict[str, Any], put: Put, gone: Gone) -> "Answer":
    for _ in range(bounds.TRUNCATIONS):
        answer = Answer(model.name, engine.window, put, gone)
        engine.answer(body, answer.accept)
        if not answer.overflow:
            answer.finish()
            return answer
        if not request.truncate:
            break
        request = _shortened(request, answer.overflow, engine.window)
        body = {**body, "messages": request.messages}
    raise OllamaError(400, OVERFLOW)


def _shortened(request: ChatRequest, tokens: int, window: int) -> ChatRequest:
    """What Ollama does unless told not to: the oldest message goes first, then the start of the last one is cut, silently."""
    messages = list(request.messages)
    old = next((i for i, each in enumerate(messages[:-1]) if each["role"] != "system"), None)
    if old is not None:
        del messages[old]
        return replace(request, messages=messages)
    content = str(messages[-1]["content"])
    keep = int(len(content) * window / tokens * 0.9)
    messages[-1] = {**messages[-1], "content": content[len(content) - keep :]}
    return replace(request, messages=messages)


class Answer:
    """Turns llama.cpp's chunks into frames; a tool call is held back until it is complete."""

    def __init__(self, model: str, window: int, put: Put, gone: Gone) -> None:
        self.model, self.window, self.put, self.gone = model, window, put, gone
        self.reason = "stop"
        self.overflow = 0
        self.frames = 0
        self.calls = 0
        self.open_call: dict[str, str] | None = None
        self.open_index = -1
        self.timings: dict[str, Any] = {}
        self.failure = ""

    def accept(self, chunk: dict[str, Any]) -> bool:
        if self.gone():
            raise ClientGone
        if "error" in chunk:
            return self._failed(chunk["error"])
        progress = chunk.get("prompt_progress")
        if progress and progress["total"] >= self.window:
            self.overflow = progress["total"]
            return True
        self.timings = chunk.get("timings") or self.timings
        for choice in chunk.get("choices", []):
            self._delta(choice.get("delta") or {})
            self.reason = "length" if choice.get("finish_reason") == "length" else self.reason
        return False

    def finish(self) -> None:
        """Raises OllamaError for a failure: as a status before the first frame, as an error line after it (the caller's choice)."""
        if self.failure:
            raise OllamaError(500, self.failure)
        self._close_call()

    @property
    def cached(self) -> int:
        """Tokens of the prompt that were kept from an earlier one."""
        return int(self.timings.get("cache_n", 0))

    @property
    def prompt_read(self) -> int:
        """Tokens of the prompt that were not."""
        return int(self.timings.get("prompt_n", 0))

    def usage(self) -> dict[str, int]:
        return {
            "prompt_eval_count": self.cached + self.prompt_read,
            "prompt_eval_duration": int(self.timings.get("prompt_ms", 0) * MILLION),
            "eval_count": int(self.timings.get("predicted_n", 0)),
            "eval_duration": int(self.timings.get("predicted_ms", 0) * MILLION),
        }

    def _failed(self, error: dict[str, Any]) -> bool:
        if error.get("type") == "exceed_context_size_error":
            self.overflow = int(error.get("n_prompt_tokens") or self.window + 1)
        else:
            self.failure = f"an error was encountered while running the model: {error.get('message', 'unknown')}"
        return True

    def _delta(self, delta: dict[str, Any]) -> None:
        message = {"thinking": delta.get("reasoning_content"), "content": delta.get("content")}
        given = {key: value for key, value in message.items() if value}
        if given:
            self.put(frame(self.model, given))
        for piece in delta.get("tool_calls") or []:
            self._piece(piece)

    def _piece(self, piece: dict[str, Any]) -> None:
        if piece.get("index", 0) != self.open_index:
            self._close_call()
            self.open_index, self.open_call = piece.get("index", 0), {"name": "", "arguments": ""}
        function, call = piece.get("function") or {}, self.open_call
        if call is not None:
            call["name"] += function.get("name") or ""
            call["arguments"] += function.get("arguments") or ""

    def _close_call(self) -> None:
        call, self.open_call = self.open_call, None
        if call is None:
            return
        try:
            arguments = json.loads(call["arguments"] or "{}")
        except ValueError:
            return  # cut off by num_predict or the window: Ollama discards an unfinished call as well
        if isinstance(arguments, dict):
            self.put(call_frame(self.model, self.calls, call["name"], arguments))
            self.calls += 1
