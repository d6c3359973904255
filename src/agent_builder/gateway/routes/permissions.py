"""Approvals: what waits, one in full, and the decision."""

from starlette.types import ASGIApp

from agent_builder.commands.command_types import DecidePermission
from agent_builder.gateway.answers import PermissionAnswer, PermissionsAnswer
from agent_builder.gateway.bodies import DecisionBody
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.routes.agents import ONE as AGENT
from agent_builder.gateway.views import permission_answer
from agent_builder.protocol.errors import AgentDamaged, AgentDraining, PermissionStale, StorageFull

ALL = f"{AGENT}/permissions"
ONE = f"{ALL}/{{permission_id}}"
_RUNTIME = (AgentDraining, AgentDamaged)


async def list_permissions(call: Call) -> ASGIApp:
    """Without the diff, which only one permission in full carries."""
    return reply(PermissionsAnswer(items=[permission_answer(view) for view in (await call.runtime()).permissions.pending()]))


async def read_permission(call: Call) -> ASGIApp:
    return reply(permission_answer((await call.runtime()).permissions.get(call.path["permission_id"])))


async def decide(call: Call) -> ASGIApp:
    body = call.sent(DecisionBody)
    command = DecidePermission(call.agent_id, call.path["permission_id"], body.decision, body.reason)
    return reply(permission_answer(await call.services.bus.dispatch(command)))


ENDPOINTS = (
    Endpoint("GET", ALL, "List what waits for a decision", list_permissions, PermissionsAnswer, errors=_RUNTIME),
    Endpoint("GET", ONE, "Read one in full, with its complete diff", read_permission, PermissionAnswer, errors=_RUNTIME),
    Endpoint("POST", ONE, "Approve or deny", decide, PermissionAnswer, body=DecisionBody,
             errors=(*_RUNTIME, PermissionStale, StorageFull)),
)
