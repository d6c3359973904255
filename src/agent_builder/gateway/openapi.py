"""The OpenAPI 3.1 document, made from the declared operations and their models.

`python -m agent_builder.gateway.openapi` writes it to stdout; docs/openapi.json is that text.
"""

import json
import re
import sys
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agent_builder.gateway.answers import ErrorAnswer
from agent_builder.gateway.bodies import ArchiveBody, EmptyBody
from agent_builder.gateway.endpoint import ARCHIVE_TYPE, Endpoint
from agent_builder.gateway.errors import STATUS
from agent_builder.gateway.routes.table import ENDPOINTS
from agent_builder.protocol.errors import (
    AgentBuilderError,
    CsrfFailed,
    ForbiddenHost,
    ForbiddenOrigin,
    Internal,
    InvalidRequest,
    NotFound,
    TooLarge,
    Unauthenticated,
)
from agent_builder.protocol.events import PAYLOADS, Control, Event
from agent_builder.protocol.limits import SKILL_ARCHIVE_BYTES

_REFERENCE = "#/components/schemas/{model}"
_CSRF = "X-CSRF-Token"
_ABOUT = """The interface of one Agent Builder. Changes need the session cookie, the header X-CSRF-Token and an Origin equal to \
scheme://Host. A method that an address does not take is answered with 405, the error shape and an Allow header. Event streams \
carry Event frames (id: the seq, event: the type) and frames without id named control; their data are the schemas Event and \
Control, and an Event's payload is the schema of its type."""


@cache
def document_json() -> str:
    """The text, made at first use: no start waits for what no page asks for."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """The whole document as plain JSON values."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Agent Builder", "version": "0.2.0", "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _SECURITY},
    }


_SECURITY = {
    "session": {"type": "apiKey", "in": "cookie", "name": "agent_builder_session"},
    "csrf": {"type": "apiKey", "in": "header", "name": _CSRF},
}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": getattr(endpoint.carry, "__name__", endpoint.path), "summary": endpoint.summary}
    parameters = [*_path_parameters(endpoint), *_query_parameters(endpoint), *_header_parameters(endpoint)]
    if parameters:
        found["parameters"] = parameters
    if endpoint.body is not EmptyBody:
        found["requestBody"] = {"required": True, "content": _body_content(endpoint)}
    found["responses"] = {**_successes(endpoint), **_failures(endpoint)}
    if not endpoint.public:
        found["security"] = [{"session": [], "csrf": []}] if endpoint.changes else [{"session": []}]
    return found


def _body_content(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.body is ArchiveBody:
        return {ARCHIVE_TYPE: {"schema": {"type": "string", "contentMediaType": ARCHIVE_TYPE, "maxLength": SKILL_ARCHIVE_BYTES}}}
    return {"application/json": {"schema": _reference(endpoint.body)}}


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    schema = {"type": "string", "format": "uuid"}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in re.findall(r"{(\w+)}", endpoint.path)]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    schema = endpoint.query.model_json_schema()
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(rule)}
        for name, rule in schema.get("properties", {}).items()
    ]


def _header_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": rule.name, "in": "header", "description": rule.description, "schema": {"type": "string", "pattern": rule.pattern}}
        for rule in endpoint.headers
    ]


def _successes(endpoint: Endpoint) -> dict[str, Any]:
    return {str(status): {"description": "Done", **_content(endpoint)} for status in (endpoint.status, *endpoint.also)}


def _content(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.answer is None:
        return {}
    if isinstance(endpoint.answer, str):
        return {"content": {endpoint.answer: {}}}
    return {"content": {"application/json": {"schema": _reference(endpoint.answer)}}}


def _failures(endpoint: Endpoint) -> dict[str, Any]:
    """One entry per status, naming the codes that may come with it."""
    codes: dict[int, list[str]] = {}
    for error in (*_shared_errors(endpoint), *endpoint.errors):
        known = codes.setdefault(STATUS[error.code], [])
        if error.code not in known:
            known.append(error.code)
    content = {"application/json": {"schema": _reference(ErrorAnswer)}}
    return {str(status): {"description": ", ".join(codes[status]), "content": content} for status in sorted(codes)}


def _shared_errors(endpoint: Endpoint) -> list[type[AgentBuilderError]]:
    errors: list[type[AgentBuilderError]] = [InvalidRequest, Internal, ForbiddenHost]
    if not endpoint.public:
        errors.append(Unauthenticated)
    if endpoint.changes:
        errors += [ForbiddenOrigin, TooLarge]
        if not endpoint.public:
            errors.append(CsrfFailed)
    if "{" in endpoint.path:
        errors.append(NotFound)
    return errors


def _schemas() -> dict[str, Any]:
    requests: set[type[BaseModel]] = {endpoint.body for endpoint in ENDPOINTS if endpoint.body not in (EmptyBody, ArchiveBody)}
    shown: set[type[BaseModel]] = {endpoint.answer for endpoint in ENDPOINTS if isinstance(endpoint.answer, type)}
    shown |= {ErrorAnswer, Event, Control, *PAYLOADS}
    modes: list[tuple[type[BaseModel], Any]] = [(model, "validation") for model in requests]
    modes += [(model, "serialization") for model in shown]
    modes.sort(key=lambda pair: pair[0].__name__)
    _, found = models_json_schema(modes, ref_template=_REFERENCE)
    schemas: dict[str, Any] = found["$defs"]
    for payload in PAYLOADS:
        schemas[payload.__name__]["title"] = payload.type
    return dict(sorted(schemas.items()))


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def _without_null(rule: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is absent is not sent as null."""
    kinds = [kind for kind in rule.get("anyOf", ()) if kind.get("type") != "null"]
    return kinds[0] if len(kinds) == 1 else {key: value for key, value in rule.items() if key != "title"}


if __name__ == "__main__":
    sys.stdout.write(document_json())
