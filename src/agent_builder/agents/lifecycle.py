"""Create, upgrade and delete an Agent, and converge at start what a crash left of that.

The registry row says how far a change has come; it is written before the files are touched and again when they are done,
so at every moment a restart knows whether to finish or to take back:

    creating   files are being made      -> taken back (the system Agent: finished)
    upgrading  target is being built     -> finished; where that fails, the old generation stays
    deleting   files are being removed   -> finished
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent_builder.agents.agent_files import (
    keep_one_environment,
    make_data_directories,
    make_roots,
    make_runtime_directories,
    remove_agent_files,
    write_manifest,
)
from agent_builder.agents.orphans import KeptConversations, delete_conversations, kept_conversations, orphans
from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.remove_tree import remove_tree
from agent_builder.capsule.research_env import converge as converge_research_env
from agent_builder.conversations.recovery import recover
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.errors import AgentBuilderError, AgentDamaged, AgentDraining, ProtectedAgent, SandboxFailed
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, AgentId, new_id
from agent_builder.protocol.limits import DATABASE_BYTES, REGISTRY_BYTES
from agent_builder.protocol.ports import Clock
from agent_builder.runs.leftovers import remove_leftovers
from agent_builder.storage import registry as rows
from agent_builder.storage.database import Database
from agent_builder.storage.delegations import Place, children_of
from agent_builder.storage.faults import storage_faults
from agent_builder.storage.migrations import AGENT_MIGRATIONS, REGISTRY_MIGRATIONS
from agent_builder.storage.registry import AgentRow, AgentState

SYSTEM_AGENT_NAME = "Assistant"
_log = logging.getLogger(__name__)


async def open_registry_database(checkout: Checkout) -> Database:
    """Raises AgentDamaged, StorageFull."""
    make_roots(checkout)
    return await Database.open(checkout.registry_db, REGISTRY_MIGRATIONS, max_bytes=REGISTRY_BYTES)


@dataclass(slots=True)
class Converged:
    """`notes`: one line per thing that was put right. `damaged`: Agents whose database cannot be read, and the sentence.
    `interrupted`: Runs that got their end now. `kept`: the Conversations of each Agent that could be read."""

    notes: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    interrupted: list[str] = field(default_factory=list)
    kept: dict[str, KeptConversations] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """`write_worker_env(path)` builds a sealed environment there, whole or not at all; `verify_worker_env(path)` raises
    SandboxFailed when it is not the one this program would write; `restore_instructions(workspace)` creates missing
    ones. All three block."""

    checkout: Checkout
    database: Database
    clock: Clock
    write_worker_env: Callable[[Path], None]
    verify_worker_env: Callable[[Path], None]
    restore_instructions: Callable[[Path], object]

    async def converge(self) -> Converged:
        """Before the port opens; may be repeated. Ends what a dead Gateway left: its Workers, half-made changes of Agents,
        unfinished Turns."""
        result = Converged()
        await self._seed()
        agents = await self.agents()
        await asyncio.to_thread(self._remove_leftovers, agents, result)
        for row in agents:
            await self._settle(row, result)
        for row in await self.agents():
            await self._refresh(row, result)
        await self._delete_orphans(result)
        return result

    async def agent(self, agent_id: AgentId) -> AgentRow:
        """Raises NotFound."""
        return await self.database.read(lambda conn: rows.get_agent(conn, agent_id))

    async def agents(self) -> list[AgentRow]:
        return await self.database.read(rows.list_agents)

    async def create(self, name: str) -> AgentRow:
        """A whole Agent or none. Raises AgentLimit, StorageFull."""
        agent_id, now = AgentId(new_id()), self.clock.now()
        row = await self.database.run(lambda conn: rows.insert_agent(conn, agent_id, name, now))
        try:
            return await self._fill(row)
        except Exception:  # a cancelled one is taken back at the next start: its thread may still be making files
            await self._discard(row)
            raise

    async def rename(self, agent_id: AgentId, name: str) -> AgentRow:
        return await self.database.run(lambda conn: rows.rename_agent(conn, agent_id, name))

    async def begin(self, agent_id: AgentId, state: AgentState) -> AgentRow:
        """Fences the Agent: upgrading or deleting. Raises NotFound, ProtectedAgent, AgentDraining (another change)."""

        def transaction(conn: sqlite3.Connection) -> AgentRow:
            row = rows.get_agent(conn, agent_id)
            if row.system:
                raise ProtectedAgent
            if row.state is not AgentState.ACTIVE:
                raise AgentDraining
            return rows.move_agent(conn, agent_id, state)

        return await self.database.run(transaction)

    async def upgrade(self, row: AgentRow) -> AgentRow:
        """Of a fenced and drained Agent: builds the target generation, switches to it, removes the others. A failure
        leaves the old generation in place and is raised."""
        assert row.target_generation is not None
        try:
            await self._end_stragglers(row.agent_id)
            await asyncio.to_thread(self._build, row.agent_id, row.target_generation)
        except Exception:
            await self.give_up(row)
            raise
        switched = await self.database.run(lambda conn: rows.move_agent(conn, row.agent_id, AgentState.ACTIVE, switch=True))
        await asyncio.to_thread(keep_one_environment, self.checkout, row.agent_id, switched.generation)
        return switched

    async def give_up(self, row: AgentRow) -> AgentRow:
        """Ends an upgrade without a new generation."""
        return await self.database.run(lambda conn: rows.move_agent(conn, row.agent_id, AgentState.ACTIVE))

    async def delete(self, row: AgentRow) -> None:
        """Of a fenced and drained Agent: its files, then its row. What fails is finished at the next start."""
        await self._discard(row)

    async def children(self, row: AgentRow) -> list[Place]:
        """What its delegations made in other Agents. Of one whose database cannot be read: none; the next start finds them."""
        if not self.has_data(row.agent_id):
            return []
        with contextlib.suppress(AgentBuilderError):  # damaged, or a full disk: neither keeps an Agent from being deleted
            async with self._opened(row.agent_id) as database:
                return await database.read(children_of)
        return []

    async def prepare(self, row: AgentRow) -> None:
        """Before the Agent's runtime is opened: instructions and environment are there. Raises AgentDamaged when its
        database is gone: a new one would hide that."""
        self._require_data(row.agent_id)
        await asyncio.to_thread(self._prepare_files, row)

    def has_data(self, agent_id: AgentId) -> bool:
        return self.checkout.state_db(agent_id).is_file()

    def has_environment(self, row: AgentRow) -> bool:
        return self.checkout.worker_env(row.agent_id, row.generation).is_dir()

    # Steps

    def _require_data(self, agent_id: AgentId) -> None:
        if not self.has_data(agent_id):
            raise AgentDamaged("This Agent's database is missing; nothing was deleted. Restore a backup.")

    async def _seed(self) -> None:
        """The system Agent's row, on the first start."""
        now = self.clock.now()

        def transaction(conn: sqlite3.Connection) -> None:
            if not any(row.system for row in rows.list_agents(conn)):
                rows.insert_agent(conn, SYSTEM_AGENT_ID, SYSTEM_AGENT_NAME, now, system=True)

        await self.database.run(transaction)

    async def _fill(self, row: AgentRow) -> AgentRow:
        """creating -> active. Every step may be repeated; what is there already stays."""
        with storage_faults():
            await asyncio.to_thread(make_data_directories, self.checkout, row.agent_id)
            await asyncio.to_thread(self._restore, row.agent_id)
            state = await Database.open(self.checkout.state_db(row.agent_id), AGENT_MIGRATIONS, max_bytes=DATABASE_BYTES)
            await state.close()
            await asyncio.to_thread(write_manifest, self.checkout, row)
            await asyncio.to_thread(self._build, row.agent_id, row.generation)
        return await self.database.run(lambda conn: rows.move_agent(conn, row.agent_id, AgentState.ACTIVE))

    async def _end_stragglers(self, agent_id: AgentId) -> None:
        """A Turn that was accepted in the moment of the fence has no Run any more."""
        with contextlib.suppress(AgentDamaged):  # an upgrade builds beside the database and leaves it as it is
            self._require_data(agent_id)
            await self._recover(agent_id)

    async def _discard(self, row: AgentRow) -> None:
        await asyncio.to_thread(remove_agent_files, self.checkout, row.agent_id)
        await self.database.run(lambda conn: rows.remove_agent(conn, row.agent_id))

    def _build(self, agent_id: AgentId, generation: int) -> None:
        with storage_faults():
            make_runtime_directories(self.checkout, agent_id)
            self.write_worker_env(self.checkout.worker_env(agent_id, generation))

    def _restore(self, agent_id: AgentId) -> None:
        try:
            self.restore_instructions(self.checkout.workspace(agent_id))
        except FileRefused as refusal:  # an unsafe workspace stays as it is: each send says what is wrong with it
            _log.warning("instructions of Agent %s cannot be restored: %s", agent_id, refusal.reason)

    def _prepare_files(self, row: AgentRow) -> None:
        try:
            self._restore(row.agent_id)
        except OSError as error:  # what is there can still be read; a send says it when it needs the file
            _log.warning("instructions of Agent %s cannot be restored: %s", row.agent_id, error.strerror)
        try:
            self.verify_worker_env(self.checkout.worker_env(row.agent_id, row.generation))
        except SandboxFailed:  # removed, changed or made by an earlier version: the same program writes it anew
            self._build(row.agent_id, row.generation)

    # Convergence

    def _remove_leftovers(self, agents: list[AgentRow], result: Converged) -> None:
        """Workers and commands of a dead Gateway, then runtime roots of Agents that are not registered; data without a row stays."""
        for row in agents:
            remove_leftovers(self.checkout.runs(row.agent_id), self.checkout.spares(row.agent_id), self.checkout.tasks(row.agent_id))
        known = {row.agent_id for row in agents}
        for path in sorted(self.checkout.agents_runtime.iterdir()):
            if path.name not in known:
                remove_leftovers(path / "runs", path / "spare", path / "tasks")
                remove_tree(path)
                result.notes.append(f"Removed the runtime files of {path.name}, which is no Agent.")

    async def _settle(self, row: AgentRow, result: Converged) -> None:
        """Finishes or takes back a change that was in progress."""
        try:
            if row.state is AgentState.CREATING and row.system:
                await self._fill(row)
                result.notes.append("Created the system Agent.")
            elif row.state is AgentState.CREATING:
                await self._discard(row)
                result.notes.append(f"Took back the unfinished creation of Agent {row.agent_id}.")
            elif row.state is AgentState.DELETING:
                await self._discard(row)
                result.notes.append(f"Finished the deletion of Agent {row.agent_id}.")
            elif row.state is AgentState.UPGRADING:
                await self.upgrade(row)
                result.notes.append(f"Finished the upgrade of Agent {row.agent_id}.")
        except (AgentBuilderError, OSError) as error:
            if row.system:
                raise
            result.notes.append(f"Agent {row.agent_id}, {row.state}: {error}")

    async def _refresh(self, row: AgentRow, result: Converged) -> None:
        """An active Agent has instructions, one environment, a whole research environment or none, and no Turn that runs."""
        if row.state is not AgentState.ACTIVE:
            return
        try:
            if await asyncio.to_thread(converge_research_env, self.checkout, row.agent_id):
                result.notes.append(f"Removed the unfinished research environment of Agent {row.agent_id}.")
            await asyncio.to_thread(self._tidy, row)
            self._require_data(row.agent_id)
            async with self._opened(row.agent_id) as database:
                result.interrupted += await recover(database, self.clock, row.agent_id)
                result.kept[row.agent_id] = await database.read(kept_conversations)
        except AgentDamaged as error:
            result.damaged[row.agent_id] = error.message
            result.notes.append(f"Agent {row.agent_id}: {error.message}")
        except (AgentBuilderError, OSError) as error:
            result.notes.append(f"Agent {row.agent_id}: {error}")

    def _tidy(self, row: AgentRow) -> None:
        keep_one_environment(self.checkout, row.agent_id, row.generation)
        if self.checkout.workspace(row.agent_id).is_dir():
            self._restore(row.agent_id)
        if not self.has_environment(row):
            self._build(row.agent_id, row.generation)

    async def _delete_orphans(self, result: Converged) -> None:
        """Child Conversations whose parent went while the other Agent's database could not be changed."""
        agents = {row.agent_id for row in await self.agents()}
        for agent_id, conversations in orphans(agents, result.kept).items():
            try:
                async with self._opened(agent_id) as database:
                    await delete_conversations(database, conversations)
                result.notes.append(f"Removed {len(conversations)} child Conversations of Agent {agent_id}, whose parents are gone.")
            except AgentBuilderError as error:
                result.notes.append(f"Agent {agent_id}: {error}")

    async def _recover(self, agent_id: str) -> None:
        async with self._opened(agent_id) as database:
            await recover(database, self.clock, agent_id)

    @contextlib.asynccontextmanager
    async def _opened(self, agent_id: str) -> AsyncIterator[Database]:
        """Of an Agent whose runtime is not opened. Raises AgentDamaged, StorageFull."""
        database = await Database.open(self.checkout.state_db(AgentId(agent_id)), AGENT_MIGRATIONS, max_bytes=DATABASE_BYTES)
        try:
            yield database
        finally:
            await database.close()
