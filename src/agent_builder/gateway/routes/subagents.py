"""Subagents: whom the Runs of a Conversation have asked, and what was said."""

from collections.abc import Mapping

from starlette.types import ASGIApp

from agent_builder.gateway.answers import ChildAnswer, LetterAnswer, SubagentAnswer, SubagentsAnswer
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.routes.sessions import ONE as CONVERSATION
from agent_builder.protocol.errors import AgentDamaged, AgentDraining
from agent_builder.protocol.ids import AgentId
from agent_builder.storage.delegations import DelegationRow


async def list_subagents(call: Call) -> ASGIApp:
    rows = await (await call.runtime()).subagents.chain(call.conversation_id)
    names = {agent.agent_id: agent.name for agent in await call.services.registry.list()}
    return reply(SubagentsAnswer(items=[_subagent(row, names) for row in rows]))


def _subagent(row: DelegationRow, names: Mapping[AgentId, str]) -> SubagentAnswer:
    agent_id = row.child.agent_id
    child = ChildAnswer(
        agent_id=agent_id, agent_name=names.get(AgentId(agent_id), row.child_agent_name), conversation_id=row.child.conversation_id,
        run_id=row.child_run_id, deleted=agent_id not in names,
    )
    mailbox = [LetterAnswer(direction=one.direction, text=one.text, created_at=one.created_at) for one in row.letters]
    return SubagentAnswer(
        task_id=row.task_id, run_id=row.run_id, state=row.state, code=row.code, child=child, mailbox=mailbox, created_at=row.created_at,
        finished_at=row.finished_at,
    )


ENDPOINTS = (
    Endpoint("GET", f"{CONVERSATION}/subagents", "List the delegations of a Conversation with their mailboxes", list_subagents, SubagentsAnswer,
             errors=(AgentDraining, AgentDamaged)),
)
