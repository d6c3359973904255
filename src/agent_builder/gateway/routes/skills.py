"""Skills of an Agent: what is installed, install, make another version active or none, remove."""

from starlette.types import ASGIApp

from agent_builder.commands.command_types import InstallSkill, RemoveSkill, SetSkillActive
from agent_builder.gateway.answers import SkillAnswer, SkillsAnswer
from agent_builder.gateway.bodies import ArchiveBody, SkillBody
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.routes.agents import ONE as AGENT
from agent_builder.gateway.views import skill_answer
from agent_builder.protocol.errors import AgentDamaged, AgentDraining, StorageFull

ALL = f"{AGENT}/skills"
ONE = f"{ALL}/{{skill_id}}"
_RUNTIME = (AgentDraining, AgentDamaged)


async def list_skills(call: Call) -> ASGIApp:
    return reply(SkillsAnswer(items=[skill_answer(row) for row in (await call.runtime()).skills.installed()]))


async def install_skill(call: Call) -> ASGIApp:
    """The version in the archive becomes the active one of its name."""
    row = await call.services.bus.dispatch(InstallSkill(call.agent_id, call.sent(ArchiveBody).content))
    return reply(skill_answer(row), 201)


async def set_skill_active(call: Call) -> ASGIApp:
    """Active: in place of any other version of its name."""
    row = await call.services.bus.dispatch(SetSkillActive(call.agent_id, call.path["skill_id"], call.sent(SkillBody).active))
    return reply(skill_answer(row))


async def remove_skill(call: Call) -> ASGIApp:
    await call.services.bus.dispatch(RemoveSkill(call.agent_id, call.path["skill_id"]))
    return reply(None)


ENDPOINTS = (
    Endpoint("GET", ALL, "List installed Skills", list_skills, SkillsAnswer, errors=_RUNTIME),
    Endpoint("POST", ALL, "Install a Skill from an archive of at most 2 MiB", install_skill, SkillAnswer, 201, body=ArchiveBody,
             errors=(*_RUNTIME, StorageFull)),
    Endpoint("PATCH", ONE, "Make one version of a Skill active, or none", set_skill_active, SkillAnswer, body=SkillBody,
             errors=(*_RUNTIME, StorageFull)),
    Endpoint("DELETE", ONE, "Remove one version of a Skill", remove_skill, None, 204, errors=(*_RUNTIME, StorageFull)),
)
