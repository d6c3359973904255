"""Which requests come from this page: the rules for Host and Origin, and the gate that holds foreign host names out.

Host: one header with an IP literal, `localhost`, the machine's name or an allowed name, and any port. A name that an attacker
points to this machine is thereby refused before anything is read.
Origin: one header that equals `scheme://Host` to the byte; absent and `null` are refused.
"""

import ipaddress
import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from agent_builder.gateway.auth import Session
from agent_builder.protocol.errors import CsrfFailed, ForbiddenHost, ForbiddenOrigin
from agent_builder.protocol.limits import HIGHEST_PORT, HOST_CHARS

_HOST = re.compile(r"(?P<bracketed>\[[0-9A-Fa-f:.]+\])(?P<port6>:[0-9]{1,5})?|(?P<name>[A-Za-z0-9._-]+)(?P<port>:[0-9]{1,5})?", re.ASCII)
_LENIENT_PATH = "/health"

Headers = Iterable[tuple[bytes, bytes]]


def header_values(headers: Headers, name: bytes) -> list[str]:
    """Every value of a header, in order; names arrive in lower case."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def host_allowed(value: str, names: frozenset[str]) -> bool:
    """Whether one Host header names this machine. `names`: the lower-case names beside IP literals."""
    parts = _HOST.fullmatch(value) if len(value) <= HOST_CHARS else None
    if parts is None or not _port_valid(parts["port6"] or parts["port"]):
        return False
    if parts["bracketed"]:
        return _is_address(parts["bracketed"][1:-1], ipaddress.IPv6Address)
    return _is_address(parts["name"], ipaddress.IPv4Address) or parts["name"].lower() in names


def require_same_origin(scope: Scope) -> None:
    """Raises ForbiddenOrigin unless the request says that this very page made it."""
    origins = header_values(scope["headers"], b"origin")
    hosts = header_values(scope["headers"], b"host")
    if len(hosts) != 1 or origins != [f"{scope['scheme']}://{hosts[0]}"]:
        raise ForbiddenOrigin


def require_csrf(scope: Scope, session: Session) -> None:
    """Raises CsrfFailed unless the one X-CSRF-Token header is this session's."""
    tokens = header_values(scope["headers"], b"x-csrf-token")
    if len(tokens) != 1 or not session.owns(tokens[0]):
        raise CsrfFailed


class HostGate:
    """Refuses foreign Host headers everywhere; `/health` is only told that the host is foreign and answers less."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            hosts = header_values(scope["headers"], b"host")
            allowed = len(hosts) == 1 and host_allowed(hosts[0], self._names)
            if not allowed and scope.get("path") != _LENIENT_PATH:
                raise ForbiddenHost
            scope["foreign_host"] = not allowed
        await self._app(scope, receive, send)


def _port_valid(port: str | None) -> bool:
    return port is None or 0 < int(port[1:]) <= HIGHEST_PORT


def _is_address(text: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True
