"""How each command is carried out: straight to the Agent, engine, Run or permission that it is about."""

from dataclasses import dataclass

from agent_builder.agents.registry import AgentRegistry
from agent_builder.agents.research_envs import ResearchStatus
from agent_builder.agents.runtime import AgentRuntime
from agent_builder.commands import command_types as ask
from agent_builder.commands.bus import CommandBus
from agent_builder.commands.slash_commands import SLASH_COMMANDS, SlashScene
from agent_builder.conversations.engine import Accepted
from agent_builder.conversations.engines import Continued
from agent_builder.llm.models import Models
from agent_builder.protocol.errors import NotFound
from agent_builder.runs.active import ActiveRuns
from agent_builder.storage.conversations import ConversationRow
from agent_builder.storage.registry import AgentRow
from agent_builder.storage.skills import SkillRow
from agent_builder.storage.tasks import TaskRow
from agent_builder.storage.turns import get_turn_by_run
from agent_builder.tools.permissions import PermissionView


def command_bus(registry: AgentRegistry, active: ActiveRuns, models: Models) -> CommandBus:
    """The bus with a carrier for every command there is."""
    bus, carry = CommandBus(), Carriers(registry, active, models)
    bus.carry(ask.CreateAgent, carry.create_agent)
    bus.carry(ask.RenameAgent, carry.rename_agent)
    bus.carry(ask.UpgradeAgent, carry.upgrade_agent)
    bus.carry(ask.DeleteAgent, carry.delete_agent)
    bus.carry(ask.InstallResearchEnv, carry.install_research_env)
    bus.carry(ask.RemoveResearchEnv, carry.remove_research_env)
    bus.carry(ask.CreateConversation, carry.create_conversation)
    bus.carry(ask.RenameConversation, carry.rename_conversation)
    bus.carry(ask.DeleteConversation, carry.delete_conversation)
    bus.carry(ask.ContinueConversation, carry.continue_conversation)
    bus.carry(ask.SubmitTurn, carry.submit_turn)
    bus.carry(ask.CancelPreparation, carry.cancel_preparation)
    bus.carry(ask.CancelRun, carry.cancel_run)
    bus.carry(ask.DecidePermission, carry.decide_permission)
    bus.carry(ask.SubmitTask, carry.submit_task)
    bus.carry(ask.CancelTask, carry.cancel_task)
    bus.carry(ask.InstallSkill, carry.install_skill)
    bus.carry(ask.SetSkillActive, carry.set_skill_active)
    bus.carry(ask.RemoveSkill, carry.remove_skill)
    bus.carry(ask.RunSlash, carry.run_slash)
    return bus


@dataclass(frozen=True, slots=True)
class Carriers:
    """One method per command."""

    registry: AgentRegistry
    active: ActiveRuns
    models: Models

    async def create_agent(self, command: ask.CreateAgent) -> AgentRow:
        return await self.registry.create(command.name)

    async def rename_agent(self, command: ask.RenameAgent) -> AgentRow:
        return await self.registry.rename(command.agent_id, command.name)

    async def upgrade_agent(self, command: ask.UpgradeAgent) -> AgentRow:
        return await self.registry.upgrade(command.agent_id)

    async def delete_agent(self, command: ask.DeleteAgent) -> AgentRow:
        return await self.registry.delete(command.agent_id)

    async def install_research_env(self, command: ask.InstallResearchEnv) -> ResearchStatus:
        return await self.registry.install_research(command.agent_id)

    async def remove_research_env(self, command: ask.RemoveResearchEnv) -> None:
        await self.registry.remove_research(command.agent_id)

    async def create_conversation(self, command: ask.CreateConversation) -> ConversationRow:
        return await (await self._runtime(command.agent_id)).engines.create(command.title)

    async def rename_conversation(self, command: ask.RenameConversation) -> ConversationRow:
        return await (await self._runtime(command.agent_id)).engines.rename(command.conversation_id, command.title)

    async def delete_conversation(self, command: ask.DeleteConversation) -> None:
        await (await self._runtime(command.agent_id)).delete_conversation(command.conversation_id)

    async def continue_conversation(self, command: ask.ContinueConversation) -> Continued:
        return await (await self._runtime(command.agent_id)).engines.continue_(command.conversation_id, command.mode)

    async def submit_turn(self, command: ask.SubmitTurn) -> Accepted:
        engine = await (await self._runtime(command.agent_id)).engines.get(command.conversation_id)
        return await engine.submit(command.submission)

    async def cancel_preparation(self, command: ask.CancelPreparation) -> ask.Stopped:
        engine = await (await self._runtime(command.agent_id)).engines.get(command.conversation_id)
        return engine.cancel_preparation(command.operation_id)

    async def cancel_run(self, command: ask.CancelRun) -> ask.Stopped:
        """The active Run first, so that a cancel costs no look into the database."""
        run = self.active.get(command.run_id)
        if run is not None and run.identity.agent_id == command.agent_id:
            return "accepted" if run.cancel() else "stale"
        runtime = await self._runtime(command.agent_id)
        if await runtime.database.read(lambda conn: get_turn_by_run(conn, command.run_id)) is None:
            raise NotFound
        return "stale"

    async def decide_permission(self, command: ask.DecidePermission) -> PermissionView:
        permissions = (await self._runtime(command.agent_id)).permissions
        return await permissions.decide(command.permission_id, command.decision, command.reason)

    async def submit_task(self, command: ask.SubmitTask) -> TaskRow:
        return await (await self._runtime(command.agent_id)).tasks.submit(command.run_id)

    async def cancel_task(self, command: ask.CancelTask) -> ask.Stopped:
        return await (await self._runtime(command.agent_id)).tasks.cancel(command.task_id)

    async def install_skill(self, command: ask.InstallSkill) -> SkillRow:
        return await (await self._runtime(command.agent_id)).skills.install(command.archive)

    async def set_skill_active(self, command: ask.SetSkillActive) -> SkillRow:
        return await (await self._runtime(command.agent_id)).skills.set_active(command.skill_id, command.active)

    async def remove_skill(self, command: ask.RemoveSkill) -> None:
        await (await self._runtime(command.agent_id)).skills.remove(command.skill_id)

    async def run_slash(self, command: ask.RunSlash) -> ask.SlashOutcome:
        runtime = await self._runtime(command.agent_id)
        agent = self.registry.view(await self.registry.get(command.agent_id))
        conversation = await runtime.engines.read(command.conversation_id)
        scene = SlashScene(agent, runtime, conversation, self.models, self.active)
        return await SLASH_COMMANDS.run(command.input, scene)

    async def _runtime(self, agent_id: str) -> AgentRuntime:
        return await self.registry.runtime(agent_id)
