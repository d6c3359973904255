"""The document of this interface."""

from starlette.responses import Response
from starlette.types import ASGIApp

from agent_builder.gateway.endpoint import Call, Endpoint


async def read_document(call: Call) -> ASGIApp:
    return Response(call.door.document(), media_type="application/json")


ENDPOINTS = (Endpoint("GET", "/api/openapi.json", "This document", read_document, "application/json"),)
