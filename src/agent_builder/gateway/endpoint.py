"""Endpoint: the declaration of one operation, from which both its route and its place in the OpenAPI document are made.

Every request takes the same steps: Origin, session, CSRF, query, body, then the endpoint's own function with a Call in which
everything has been checked.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, get_origin
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_builder.agents.runtime import AgentRuntime
from agent_builder.gateway.answers import Answer
from agent_builder.gateway.auth import Session, Sessions
from agent_builder.gateway.bodies import ArchiveBody, Body, EmptyBody, NoQuery, Query
from agent_builder.gateway.csrf import header_values, require_csrf, require_same_origin
from agent_builder.gateway.errors import MethodRefused, field_fault
from agent_builder.gateway.request_body import read_body, require_json, require_type
from agent_builder.gateway.services import Services
from agent_builder.gateway.throttle import LoginThrottle
from agent_builder.protocol.errors import AgentBuilderError, InvalidRequest, NotFound, Unauthenticated
from agent_builder.protocol.ids import is_id
from agent_builder.protocol.limits import NAME_BYTES, SKILL_ARCHIVE_BYTES

Given = TypeVar("Given", bound=BaseModel)
ARCHIVE_TYPE = "application/zip"
_READING = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Door:
    """What the Gateway itself keeps: sessions, the memory of failed logins, and what gives the text of its document."""

    sessions: Sessions
    throttle: LoginThrottle
    document: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Call:
    """One checked request. `session` is None only where the endpoint is public and nobody is logged in."""

    services: Services
    door: Door
    scope: Scope
    session: Session | None
    path: Mapping[str, str]
    query: Query
    body: Body

    def sent(self, kind: type[Given]) -> Given:
        """The body or query as the model that the endpoint declares."""
        for found in (self.body, self.query):
            if isinstance(found, kind):
                return found
        raise TypeError(f"this endpoint declares no {kind.__name__}")

    def header(self, name: bytes) -> str | None:
        """The one value of a header. Raises InvalidRequest when it was sent twice."""
        values = header_values(self.scope["headers"], name)
        if len(values) > 1:
            raise InvalidRequest("This header may stand only once.", field=name.decode())
        return values[0] if values else None

    @property
    def peer(self) -> str:
        """The other end of the socket, whatever a header says."""
        client: tuple[str, int] | None = self.scope.get("client")
        return client[0] if client else ""

    @property
    def reads_headers_only(self) -> bool:
        return bool(self.scope["method"] == "HEAD")

    @property
    def agent_id(self) -> str:
        return self.path["agent_id"]

    @property
    def conversation_id(self) -> str:
        return self.path["conversation_id"]

    @property
    def run_id(self) -> str:
        return self.path["run_id"]

    async def runtime(self) -> AgentRuntime:
        """The Agent's opened parts. Raises NotFound, AgentDraining, AgentDamaged."""
        return await self.services.registry.runtime(self.agent_id)


Carry = Callable[[Call], Awaitable[ASGIApp]]


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A header that an operation reads, and the pattern of its value."""

    name: str
    description: str
    pattern: str = "^.*$"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation. `answer`: its model, None for an empty answer, or a media type. `errors`: what it may raise beside the
    errors that every operation of its kind shares. `public`: needs no session, and no CSRF token for a change. `headers`: what it
    reads beside the usual ones. `also`: further statuses with the same answer."""

    method: str
    path: str
    summary: str
    carry: Carry
    answer: type[BaseModel] | str | None
    status: int = 200
    body: type[Body] = EmptyBody
    query: type[Query] = NoQuery
    errors: tuple[type[AgentBuilderError], ...] = ()
    public: bool = False
    headers: tuple[HeaderRule, ...] = ()
    also: tuple[int, ...] = ()

    @property
    def changes(self) -> bool:
        return self.method not in _READING


def reply(answer: BaseModel | None, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The usual end of an endpoint."""
    if answer is None:
        return Response(status_code=204, headers=headers)
    text = answer.to_json() if isinstance(answer, Answer) else answer.model_dump_json(exclude_none=True)
    return Response(text, status, headers, "application/json")


class PathApp:
    """All endpoints of one path."""

    def __init__(self, services: Services, door: Door, endpoints: Mapping[str, Endpoint]) -> None:
        self._services = services
        self._door = door
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        endpoint = self._endpoints.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            raise MethodRefused([*self._endpoints, *(["HEAD"] if "GET" in self._endpoints else [])])
        answer = await endpoint.carry(await self._call(endpoint, scope, receive))
        await answer(scope, receive, send)

    async def _call(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Call:
        session = self._admit(endpoint, scope)
        path: dict[str, str] = scope["path_params"]
        if not all(map(is_id, path.values())):
            raise NotFound
        query = read_query(endpoint.query, scope["query_string"])
        body: Body = EmptyBody()
        if endpoint.changes:
            body = await self._body(endpoint.body, scope, receive)
        return Call(self._services, self._door, scope, session, path, query, body)

    async def _body(self, kind: type[Body], scope: Scope, receive: Receive) -> Body:
        """An archive's type is looked at before its bytes are read."""
        if kind is ArchiveBody:
            require_type(scope, ARCHIVE_TYPE)
            return ArchiveBody(content=await read_body(scope, receive, self._services.clock, SKILL_ARCHIVE_BYTES))
        return _parse_body(kind, await read_body(scope, receive, self._services.clock), scope)

    def _admit(self, endpoint: Endpoint, scope: Scope) -> Session | None:
        if endpoint.changes:
            require_same_origin(scope)
        session = self._door.sessions.find(header_values(scope["headers"], b"cookie"))
        if endpoint.public:
            return session
        if session is None:
            raise Unauthenticated
        if endpoint.changes:
            require_csrf(scope, session)
        return session


def read_query(kind: type[Query], raw: bytes) -> Query:
    """The query as its model. Raises InvalidRequest for an unknown name, or one that stands twice without being a list."""
    given: dict[str, object] = {}
    for name, values in _pairs(raw).items():
        rule = kind.model_fields.get(name)
        if rule is not None and get_origin(rule.annotation) is list:
            given[name] = values
        elif len(values) > 1:
            raise InvalidRequest("This name may stand only once in a query.", field=name[:NAME_BYTES])
        else:
            given[name] = values[0]
    try:
        return kind.model_validate(given)
    except ValidationError as fault:
        raise field_fault(fault) from None


def _pairs(raw: bytes) -> dict[str, list[str]]:
    if not raw:
        return {}
    try:
        return parse_qs(raw.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise InvalidRequest("The query cannot be read.") from None


def _parse_body(kind: type[Body], raw: bytes, scope: Scope) -> Body:
    if not raw and kind is EmptyBody:
        return EmptyBody()
    require_json(scope)
    try:
        return kind.model_validate_json(raw)
    except ValidationError as fault:
        raise field_fault(fault) from None
