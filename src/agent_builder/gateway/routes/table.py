"""Every operation of the interface, in the order in which the document shows them."""

from agent_builder.gateway.endpoint import Endpoint
from agent_builder.gateway.routes import (
    agents,
    auth,
    document,
    health,
    models,
    permissions,
    research,
    runs,
    sessions,
    skills,
    slash,
    streams,
    subagents,
    tasks,
    workspace,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *health.ENDPOINTS,
    *auth.ENDPOINTS,
    *models.ENDPOINTS,
    *agents.ENDPOINTS,
    *research.ENDPOINTS,
    *sessions.ENDPOINTS,
    *runs.ENDPOINTS,
    *streams.ENDPOINTS,
    *subagents.ENDPOINTS,
    *permissions.ENDPOINTS,
    *tasks.ENDPOINTS,
    *workspace.ENDPOINTS,
    *skills.ENDPOINTS,
    *slash.ENDPOINTS,
    *document.ENDPOINTS,
)
