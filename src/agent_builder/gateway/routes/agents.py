"""Agents."""

from starlette.types import ASGIApp

from agent_builder.commands.command_types import CreateAgent, DeleteAgent, RenameAgent, UpgradeAgent
from agent_builder.gateway.answers import AgentAnswer, AgentsAnswer
from agent_builder.gateway.bodies import CreateAgentBody, RenameAgentBody
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.views import agent_answer
from agent_builder.protocol.errors import AgentDraining, AgentLimit, ProtectedAgent, StorageFull
from agent_builder.storage.registry import AgentRow

ONE = "/api/agents/{agent_id}"


async def list_agents(call: Call) -> ASGIApp:
    registry = call.services.registry
    return reply(AgentsAnswer(items=[agent_answer(registry.view(row)) for row in await registry.list()]))


async def create_agent(call: Call) -> ASGIApp:
    row = await call.services.bus.dispatch(CreateAgent(call.sent(CreateAgentBody).name))
    return _shown(call, row, 201)


async def read_agent(call: Call) -> ASGIApp:
    return _shown(call, await call.services.registry.get(call.agent_id))


async def rename_agent(call: Call) -> ASGIApp:
    return _shown(call, await call.services.bus.dispatch(RenameAgent(call.agent_id, call.sent(RenameAgentBody).name)))


async def delete_agent(call: Call) -> ASGIApp:
    """Long work: the answer shows the Agent with its phase, later reads show the progress and then 404."""
    return _shown(call, await call.services.bus.dispatch(DeleteAgent(call.agent_id)), 202)


async def upgrade_agent(call: Call) -> ASGIApp:
    return _shown(call, await call.services.bus.dispatch(UpgradeAgent(call.agent_id)), 202)


def _shown(call: Call, row: AgentRow, status: int = 200) -> ASGIApp:
    return reply(agent_answer(call.services.registry.view(row)), status)


ENDPOINTS = (
    Endpoint("GET", "/api/agents", "List Agents", list_agents, AgentsAnswer),
    Endpoint("POST", "/api/agents", "Create an Agent", create_agent, AgentAnswer, 201, body=CreateAgentBody,
             errors=(AgentLimit, AgentDraining, StorageFull)),
    Endpoint("GET", ONE, "Read an Agent", read_agent, AgentAnswer),
    Endpoint("PATCH", ONE, "Rename an Agent", rename_agent, AgentAnswer, body=RenameAgentBody, errors=(ProtectedAgent, AgentDraining, StorageFull)),
    Endpoint("DELETE", ONE, "Delete an Agent and everything in it", delete_agent, AgentAnswer, 202,
             errors=(ProtectedAgent, AgentDraining, StorageFull)),
    Endpoint("POST", f"{ONE}/upgrade", "Rebuild the Agent's runtime environment", upgrade_agent, AgentAnswer, 202,
             errors=(ProtectedAgent, AgentDraining, StorageFull)),
)
