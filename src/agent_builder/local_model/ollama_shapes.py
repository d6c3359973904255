"""Ollama's answers: show, tags, ps, frames and errors, as one compact JSON text each.

Source of the shapes: recorded answers of a real Ollama server; key order is the recorded one.
"""

import json
import random
import string
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_builder.local_model.gguf import Gguf, LongArray, read_gguf

VERSION = "0.24.0"
HIDDEN_METADATA = ("general.name", "tokenizer.chat_template")
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
BILLION, MILLION = 1_000_000_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Model:
    """One model that the server offers. `digest` is the SHA-256 of the weights file, 64 lower-case hex digits."""

    name: str
    label: str
    gguf: Gguf
    digest: str

    @property
    def capabilities(self) -> list[str]:
        template = self.gguf.chat_template
        known = {"tools": "tools" in template, "thinking": "<think>" in template or "enable_thinking" in template}
        return ["completion", *(name for name, present in known.items() if present)]


def open_model(name: str, label: str, path: Path, digest: str) -> Model:
    """Raises GgufError when the file is no GGUF file."""
    return Model(name, label, read_gguf(path), digest)


def encode(value: Any) -> str:
    """Compact JSON with Go's escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text


def error(text: str) -> str:
    return encode({"error": text})


def details(model: Model, parent: str = "") -> dict[str, Any]:
    family = model.gguf.architecture
    return {
        "parent_model": parent,
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": _size(model.gguf.parameter_count),
        "quantization_level": model.gguf.quantization,
    }


def show(model: Model, verbose: bool) -> dict[str, Any]:
    """The body of /api/show; `verbose` adds the vocabulary (several megabytes)."""
    stop = model.gguf.end_of_turn()
    return {
        "modelfile": f"FROM {model.name}\n" + (f"PARAMETER stop {stop}\n" if stop else ""),
        "parameters": f"{'stop':<30} {json.dumps(stop)}" if stop else "",
        "template": model.gguf.chat_template,
        "details": details(model),
        "model_info": _model_info(model.gguf, verbose),
        "tensors": [{"name": each.name, "type": each.type, "shape": each.shape} for each in model.gguf.tensors],
        "capabilities": model.capabilities,
        "modified_at": _stamp(model.gguf.path.stat().st_mtime_ns),
    }


def tags(models: list[Model]) -> dict[str, Any]:
    return {
        "models": [
            {
                "name": each.name,
                "model": each.name,
                "modified_at": _stamp(each.gguf.path.stat().st_mtime_ns),
                "size": each.gguf.path.stat().st_size,
                "digest": each.digest,
                "details": details(each),
            }
            for each in models
        ]
    }


def ps(model: Model | None, window: int, expires_ns: int) -> dict[str, Any]:
    """The loaded model, if any; `window` is what is allocated."""
    if model is None:
        return {"models": []}
    entry = {"name": model.name, "model": model.name, "size": model.gguf.path.stat().st_size, "digest": model.digest}
    return {
        "models": [{**entry, "details": details(model), "expires_at": _stamp(expires_ns), "size_vram": 0, "context_length": window}]
    }


def frame(model: str, message: dict[str, Any] | None = None) -> dict[str, Any]:
    content = {"role": "assistant", "content": "", **(message or {})}
    return {"model": model, "created_at": _stamp(time.time_ns()), "message": content, "done": False}


def call_frame(model: str, index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    suffix = "".join(random.choices(string.ascii_lowercase + string.digits, k=8))  # noqa: S311 — a label, not a secret
    call = {"id": f"call_{suffix}", "function": {"index": index, "name": name, "arguments": arguments}}
    return frame(model, {"tool_calls": [call]})


def last_frame(model: str, reason: str, metrics: dict[str, int] | None = None) -> dict[str, Any]:
    """The frame with done true; a metric of zero is left out, as Ollama does."""
    measured = {name: value for name, value in (metrics or {}).items() if value}
    return {**frame(model), "done": True, "done_reason": reason, **measured}


def _model_info(gguf: Gguf, verbose: bool) -> dict[str, Any]:
    info: dict[str, Any] = {}
    for key in sorted({*gguf.metadata, "general.parameter_count"} - set(HIDDEN_METADATA)):
        value = gguf.parameter_count if key == "general.parameter_count" else gguf.metadata[key]
        if isinstance(value, LongArray):
            value = gguf.array(key) if verbose else None
        info[key] = value
    return info


def _size(parameters: int) -> str:
    if parameters >= BILLION:
        return f"{parameters / BILLION:.1f}B"
    return f"{parameters / MILLION:.2f}M"


def _stamp(nanoseconds: int) -> str:
    whole = datetime.fromtimestamp(nanoseconds // BILLION, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{nanoseconds % BILLION:09d}Z"
