"""The one mapping from error codes to HTTP statuses, the one shape of error answers, and the border where errors end.

A fault that nobody expected is logged once, without its text, under a short id that the answer repeats.
"""

import logging
import secrets
import traceback
from collections.abc import Callable

from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_builder.gateway.answers import ErrorAnswer, ErrorShape
from agent_builder.protocol.errors import (
    AgentBuilderError,
    Internal,
    InvalidRequest,
    NotFound,
    RequestError,
    leaf_classes,
)

STATUS: dict[str, int] = {
    "invalid_request": 400,
    "invalid_session_cursor": 400,
    "unauthenticated": 401,
    "forbidden_origin": 403,
    "forbidden_host": 403,
    "csrf_failed": 403,
    "protected_agent": 403,
    "not_found": 404,
    "conversation_busy": 409,
    "conversation_limit": 409,
    "agent_limit": 409,
    "idempotency_mismatch": 409,
    "permission_stale": 409,
    "attachment_refused": 409,
    "instructions_refused": 409,
    "agent_busy": 409,
    "too_large": 413,
    "login_throttled": 429,
    "run_limit": 429,
    "subscriber_limit": 429,
    "internal": 500,
    "starting": 503,
    "agent_draining": 503,
    "storage_full": 503,
    "agent_damaged": 503,
}
METHOD_STATUS = 405
_INCIDENT_BYTES = 4
_log = logging.getLogger(__name__)


class MethodRefused(InvalidRequest):
    """The path exists, the method does not; answered with 405 and the methods there are."""

    sentence = "This address does not take this method."

    def __init__(self, allowed: list[str]) -> None:
        super().__init__()
        self.allowed = ", ".join(allowed)


def error_response(error: AgentBuilderError) -> Response:
    """The uniform answer of one error."""
    headers = {}
    if "retry_after_s" in error.details:
        headers["Retry-After"] = str(error.details["retry_after_s"])
    status = STATUS[error.code]
    if isinstance(error, MethodRefused):
        status, headers["Allow"] = METHOD_STATUS, error.allowed
    shape = ErrorShape(code=error.code, message=error.message, retryable=error.retryable, details=error.details or None)
    return Response(ErrorAnswer(error=shape).to_json(), status, headers, "application/json")


def field_fault(fault: ValidationError) -> InvalidRequest:
    """The first thing wrong with a body or query, in words that repeat none of it."""
    first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])[:100]
    problem = first["msg"].removeprefix("Value error, ")
    return InvalidRequest(f"{field}: {problem}" if field else problem, field=field or None)


class ErrorBorder:
    """Turns what is raised below into answers. An answer that has begun can only be broken off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            return
        except RequestError as error:
            answer = error_response(error)
        except Exception as fault:  # noqa: BLE001 - the named border of HTTP: whatever else was raised becomes `internal`
            answer = error_response(_incident(fault))
        else:
            return
        if started:
            abort_connection(scope)
            return
        await answer(scope, receive, send)


def abort_connection(scope: Scope) -> None:
    """Drops the client's connection at once, with whatever waits in its buffer."""
    abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
    if abort is not None:
        abort()


ABORT = "agent_builder.abort"


def unknown_address() -> NotFound:
    return NotFound("There is nothing at this address.")


def _incident(fault: Exception) -> Internal:
    """Logs where it happened; the fault's own text may hold what was sent and stays out."""
    incident = secrets.token_hex(_INCIDENT_BYTES)
    frames = traceback.extract_tb(fault.__traceback__)
    way = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    _log.error("incident %s: %s at %s", incident, type(fault).__name__, way)
    return Internal(incident=incident)


assert {code for code, leaf in leaf_classes().items() if issubclass(leaf, RequestError)} == STATUS.keys() - {"internal"}
