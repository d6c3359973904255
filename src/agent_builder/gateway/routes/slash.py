"""Slash commands: their catalog, and carrying one out."""

from starlette.types import ASGIApp

from agent_builder.commands.command_types import RunSlash
from agent_builder.commands.slash_commands import SLASH_COMMANDS
from agent_builder.gateway.answers import (
    CommandAnswer,
    NextTurnParameter,
    SaidAnswer,
    SlashCommandAnswer,
    SlashCommandsAnswer,
)
from agent_builder.gateway.bodies import SlashBody
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.routes.agents import ONE as AGENT
from agent_builder.gateway.routes.sessions import ONE as CONVERSATION
from agent_builder.protocol.errors import AgentDamaged, AgentDraining

_RUNTIME = (AgentDraining, AgentDamaged)


async def list_commands(call: Call) -> ASGIApp:
    await call.services.registry.get(call.agent_id)
    items = [
        SlashCommandAnswer(name=one.name, aliases=list(one.aliases), help=one.help, arguments=one.arguments())
        for one in SLASH_COMMANDS.commands
    ]
    return reply(SlashCommandsAnswer(items=items))


async def run_command(call: Call) -> ASGIApp:
    outcome = await call.services.bus.dispatch(RunSlash(call.agent_id, call.conversation_id, call.sent(SlashBody).input))
    parameter = None
    if outcome.model_id is not None or outcome.compact is not None:
        parameter = NextTurnParameter(model_id=outcome.model_id, compact=outcome.compact)
    lines = [SaidAnswer(code=line.code, values=dict(line.values)) for line in outcome.lines]
    return reply(CommandAnswer(output=outcome.output, lines=lines, parameter=parameter))


ENDPOINTS = (
    Endpoint("GET", f"{AGENT}/commands", "List the slash commands", list_commands, SlashCommandsAnswer),
    Endpoint("POST", f"{CONVERSATION}/commands", "Carry out a slash command", run_command, CommandAnswer, body=SlashBody,
             errors=_RUNTIME),
)
