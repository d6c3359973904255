"""AgentRuntime: the opened object graph of one Agent. Made on first use, closed when the Agent or the Gateway ends."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from agent_builder.capsule.leftovers import remove_reserved_temps
from agent_builder.capsule.research_env import installed
from agent_builder.capsule.skills import Skills
from agent_builder.context.inputs import Surroundings, joined
from agent_builder.conversations.admission import Admission
from agent_builder.conversations.engine import EngineParts
from agent_builder.conversations.engines import QueryEngines
from agent_builder.conversations.inspection import Inspection
from agent_builder.conversations.pages import Pages
from agent_builder.conversations.planning import AskSurroundings
from agent_builder.conversations.preview import Preview
from agent_builder.conversations.recovery import recover
from agent_builder.llm.broker import ModelBroker
from agent_builder.llm.models import Models
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import AgentId
from agent_builder.protocol.limits import DATABASE_BYTES
from agent_builder.protocol.ports import Clock
from agent_builder.runs.active import ActiveRuns
from agent_builder.runs.live import LiveRuns
from agent_builder.runs.run import RunParts
from agent_builder.runs.workers import Spawn, Workers
from agent_builder.storage.database import Database
from agent_builder.storage.migrations import AGENT_MIGRATIONS
from agent_builder.tasks.active import ActiveTasks
from agent_builder.tasks.background import BackgroundTasks, TaskParts
from agent_builder.tasks.subagents import Delegations, Subagents
from agent_builder.tools.broker import CapabilityBroker
from agent_builder.tools.permissions import Permissions
from agent_builder.tools.skills import skills_around

DOCUMENT_TOOLS = frozenset({"document/extract_text"})
"""What a research environment makes possible."""


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What all Agents share. `start_task`: begins what outlives a request. `command_turn`: held by the one command that runs."""

    checkout: Checkout
    clock: Clock
    live: LiveRuns
    active: ActiveRuns
    workers: Workers
    models: Models
    broker: ModelBroker
    page_key: bytes
    semantic_summary: bool
    context_reveal: bool
    delegations: Delegations
    start_task: Spawn
    command_turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class AgentRuntime:
    agent_id: AgentId
    database: Database
    engines: QueryEngines
    permissions: Permissions
    workspace: Path
    worker_env: Path
    inspection: Inspection
    preview: Preview
    surroundings: AskSurroundings
    skills: Skills
    subagents: Subagents
    active: ActiveRuns
    workers: Workers
    tasks: BackgroundTasks

    async def delete_conversation(self, conversation_id: str) -> None:
        """With its Tasks, which leave nothing behind, and the Conversations that its delegations made in other Agents. Raises NotFound,
        ConversationBusy (a Turn is unfinished), StorageFull."""
        await self.engines.require_idle(conversation_id)
        async with self.tasks.without(conversation_id):
            children = await self.subagents.children(conversation_id)
            await self.engines.delete(conversation_id)
        await self.subagents.delete_children(children)

    async def close(self) -> None:
        """Ends what is still going on: no Turn begins any more, Runs and Tasks end, Skills are whole, the spare Worker goes, then the database."""
        self.engines.close()
        await self.active.drain(self.agent_id)
        await self.tasks.close()
        await self.skills.close()
        await self.workers.stop_spare(self.worker_env)
        await self.database.close()


async def open_recovered(checkout: Checkout, agent_id: AgentId, clock: Clock) -> Database:
    """A database in which no Turn is unfinished: no Run of this Agent is active while its runtime is not opened.
    Raises AgentDamaged, StorageFull."""
    database = await Database.open(checkout.state_db(agent_id), AGENT_MIGRATIONS, max_bytes=DATABASE_BYTES)
    try:
        await recover(database, clock, agent_id)
    except BaseException:
        await database.close()
        raise
    return database


async def open_runtime(agent_id: AgentId, generation: int, shared: SharedParts) -> AgentRuntime:
    """Ends first what the start could not end because the disk was full. Raises AgentDamaged, StorageFull."""
    checkout = shared.checkout
    workspace, worker_env = checkout.workspace(agent_id), checkout.worker_env(agent_id, generation)
    await asyncio.to_thread(remove_reserved_temps, workspace)
    database = await open_recovered(checkout, agent_id, shared.clock)
    skills = await Skills.open(database, checkout.skills(agent_id), shared.clock)
    permissions, active_tasks = Permissions(shared.clock), ActiveTasks()
    subagents = Subagents(agent_id, database, active_tasks, shared.delegations)

    def library() -> Path | None:
        found = installed(checkout, agent_id)
        return found.path if found else None

    capabilities = CapabilityBroker(permissions, shared.clock, worker_env, shared.command_turn, library, skills, subagents)
    run_parts = RunParts(
        database=database, live=shared.live, clock=shared.clock, models=shared.broker, capabilities=capabilities, permissions=permissions,
        workers=shared.workers, workspace=workspace, worker_env=worker_env, runs_root=checkout.runs(agent_id), spares=checkout.spares(agent_id),
    )

    async def surroundings(conversation_id: str | None) -> Surroundings:
        documents = Surroundings(tools=DOCUMENT_TOOLS if installed(checkout, agent_id) else frozenset())
        return joined(documents, await subagents.around(conversation_id), skills_around(skills.active()))

    admission = Admission(
        database=database, models=shared.models, broker=shared.broker, workspace=workspace,
        worker_env=worker_env, clock=shared.clock, semantic_summary=shared.semantic_summary, surroundings=surroundings,
    )
    engine_parts = EngineParts(
        agent_id=agent_id, run_parts=run_parts, active=shared.active, models=shared.models, admit=admission.admit
    )
    return AgentRuntime(
        agent_id=agent_id, database=database, engines=QueryEngines(engine_parts, Pages(database, agent_id, shared.page_key)),
        permissions=permissions, workspace=workspace, worker_env=worker_env,
        inspection=Inspection(database, admission, reveal_enabled=shared.context_reveal),
        preview=Preview(database, shared.models, admission), surroundings=surroundings, skills=skills, subagents=subagents,
        active=shared.active,
        workers=shared.workers, tasks=_background_tasks(agent_id, database, worker_env, active_tasks, shared),
    )


def _background_tasks(
    agent_id: AgentId, database: Database, worker_env: Path, active: ActiveTasks, shared: SharedParts
) -> BackgroundTasks:
    return BackgroundTasks(TaskParts(
        database=database, clock=shared.clock, active=active, workspace=shared.checkout.workspace(agent_id), worker_env=worker_env,
        tasks_root=shared.checkout.tasks(agent_id), command_turn=shared.command_turn, start_task=shared.start_task,
    ))
