"""The public health answer."""

from starlette.types import ASGIApp

from agent_builder.gateway.answers import HealthAnswer
from agent_builder.gateway.endpoint import Call, Endpoint, reply


async def read_health(call: Call) -> ASGIApp:
    """A foreign host name learns the status and nothing else."""
    health = call.services.health()
    return reply(HealthAnswer(status=health.status) if call.scope["foreign_host"] else health)


ENDPOINTS = (Endpoint("GET", "/health", "Whether the Gateway works", read_health, HealthAnswer, public=True),)
