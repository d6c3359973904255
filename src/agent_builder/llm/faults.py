"""What an answer that is no stream of frames means: the one table from a provider's status and text to our errors.
The provider's text decides, and never leaves this file.
"""

import json
from typing import Final

from agent_builder.protocol.errors import (
    ModelCapabilityMissing,
    ModelContextLimit,
    ModelFirstFrameTimeout,
    ModelNotFound,
    ModelProtocol,
    ModelProviderError,
    ModelTransport,
    ModelTransportTimeout,
    ModelUnavailable,
    RunError,
)


class ProviderOverflow(ModelContextLimit):
    """The provider refused a prompt as too long for its window, before any frame."""

    sentence = "The model server says that the request is longer than its window."


BEFORE_A_FRAME: Final = (ModelFirstFrameTimeout, ModelTransport, ModelTransportTimeout, ModelUnavailable, ModelProviderError)
"""Faults that are retried once while no frame has arrived, and that count for the circuit."""

_OVERFLOW = (
    "exceed_context_size", "exceeds the available context size", "longer than the context length", "exceeds the context length",
    "exceeds maximum context", "context length exceeded",
)


def status_fault(status: int, body: bytes) -> RunError:
    """For an answer whose status is not 200. `body`: its first part."""
    text = error_text(body)
    if status >= 400 and _is_overflow(text):
        return ProviderOverflow()
    if status == 404:
        return ModelNotFound()
    if status == 400 and "does not support" in text:
        return ModelCapabilityMissing()
    if status in (408, 429) or status >= 500:
        return ModelProviderError(f"The model server answered with status {status}.")
    if status in (401, 403):
        return ModelProtocol(f"The model server refused access (status {status}); see api_key_file in the model catalog.")
    return ModelProtocol(f"The model server refused the request (status {status}).")


def line_fault(text: str, *, first: bool) -> RunError:
    """For an error line under status 200. `first`: no frame came before it."""
    text = _innermost(text)
    if first and _is_overflow(text):
        return ProviderOverflow()
    if first and "not found" in text and "model" in text:
        return ModelNotFound()
    return ModelProviderError("The model server reported a fault instead of an answer." if first else "The model server broke off its answer with a fault.")


def error_text(body: bytes) -> str:
    """The message in an error answer, or the answer itself where it has another form."""
    return _innermost(body.decode(errors="replace"))


def _innermost(text: str) -> str:
    """Error texts may be JSON that holds another error, itself perhaps JSON in a text."""
    for _ in range(4):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        while isinstance(value, dict) and isinstance(value.get("error"), dict):
            value = value["error"]
        if not isinstance(value, dict):
            return text
        inner = value.get("error", value.get("message"))
        if not isinstance(inner, str):
            return text
        if "type" in value:
            inner = f"{value['type']} {inner}"
        text = inner
    return text


def _is_overflow(text: str) -> bool:
    lowered = text.lower()
    return any(phrase in lowered for phrase in _OVERFLOW)
