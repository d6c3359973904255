"""Reads a request body within its bounds: refused by its announced length, or as soon as it grows past the limit."""

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from agent_builder.gateway.csrf import header_values
from agent_builder.protocol.errors import InvalidRequest, TooLarge
from agent_builder.protocol.limits import BODY_BYTES, BODY_S
from agent_builder.protocol.ports import Clock


async def read_body(scope: Scope, receive: Receive, clock: Clock, limit: int = BODY_BYTES) -> bytes:
    """The whole body, at most `limit` bytes. Raises TooLarge without reading on, InvalidRequest when it does not arrive."""
    announced = header_values(scope["headers"], b"content-length")
    if announced and int(announced[0]) > limit:
        raise TooLarge(limit_bytes=limit)
    try:
        async with clock.timeout(BODY_S):
            return await _collect(receive, limit)
    except TimeoutError:
        raise InvalidRequest("The request body did not arrive in time.") from None


def require_json(scope: Scope) -> None:
    """A form of another site cannot send this type without being asked first."""
    types = header_values(scope["headers"], b"content-type")
    kind, _, parameter = (types[0] if len(types) == 1 else "").partition(";")
    if kind.strip().lower() != "application/json" or parameter.strip().lower() not in ("", "charset=utf-8"):
        raise InvalidRequest("The request body must be application/json.", field="Content-Type")


def require_type(scope: Scope, wanted: str) -> None:
    """The one type that this address takes, without parameters; a form of another site cannot send it without being asked first."""
    types = header_values(scope["headers"], b"content-type")
    if len(types) != 1 or types[0].strip().lower() != wanted:
        raise InvalidRequest(f"The request body must be {wanted}.", field="Content-Type")


async def _collect(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise TooLarge(limit_bytes=limit)
        if not message.get("more_body", False):
            return b"".join(parts)
