"""A registry over real files and databases, for tests of what Agents go through; a runtime here is just its database."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_builder.agents.lifecycle import Converged, Lifecycle, open_registry_database
from agent_builder.agents.registry import AgentRegistry
from agent_builder.agents.research_envs import ResearchEnvs
from agent_builder.capsule.instructions import restore_default
from agent_builder.capsule.research_install import PackageSource
from agent_builder.capsule.worker_env import verify_worker_env, write_worker_env
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.limits import DATABASE_BYTES
from agent_builder.runs.active import ActiveRuns
from agent_builder.storage.database import Database
from agent_builder.storage.delegations import Place
from agent_builder.storage.migrations import AGENT_MIGRATIONS
from agent_builder.storage.registry import AgentRow
from tests.support.stored import FixedClock


@dataclass
class BareRuntime:
    """As much of an AgentRuntime as the registry knows: it can be closed, and nothing waits in it."""

    row: AgentRow
    database: Database

    @property
    def permissions(self) -> "BareRuntime":
        return self

    def pending(self) -> list[object]:
        return []

    async def close(self) -> None:
        await self.database.close()


@dataclass
class Opened:
    checkout: Checkout
    registry: AgentRegistry
    lifecycle: Lifecycle
    converged: Converged
    tasks: asyncio.TaskGroup
    runs: dict[str, int] = field(default_factory=dict)
    drains: list[str] = field(default_factory=list)
    openings: list[str] = field(default_factory=list)
    orphaned: list[Place] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def settled(self) -> None:
        """Returns when no background work is left."""
        while waiting := [task for task in self.tasks._tasks if task is not asyncio.current_task()]:
            await asyncio.wait(waiting)


def lifecycle_of(checkout: Checkout, database: Database, **parts: object) -> Lifecycle:
    plain = {"write_worker_env": write_worker_env, "verify_worker_env": verify_worker_env, "restore_instructions": restore_default}
    return Lifecycle(checkout=checkout, database=database, clock=FixedClock(), **{**plain, **parts})  # type: ignore[arg-type]


@asynccontextmanager
async def opened(checkout: Checkout, **parts: object) -> AsyncIterator[Opened]:
    """`parts` replace functions of the Lifecycle. A drain waits for `gate`, which is open at first."""
    database = await open_registry_database(checkout)
    lifecycle = lifecycle_of(checkout, database, **parts)

    async def open_runtime(row: AgentRow) -> BareRuntime:
        everything.openings.append(row.agent_id)
        path = checkout.state_db(row.agent_id)
        return BareRuntime(row, await Database.open(path, AGENT_MIGRATIONS, max_bytes=DATABASE_BYTES))

    async def drain(agent_id: str) -> None:
        everything.drains.append(agent_id)
        await everything.gate.wait()
        everything.runs.pop(agent_id, None)

    async def delete_children(children: Sequence[Place]) -> None:
        everything.orphaned += children

    async with asyncio.TaskGroup() as tasks:
        registry = AgentRegistry(
            lifecycle, open_runtime=open_runtime, drain=drain, active_runs=lambda agent_id: everything.runs.get(agent_id, 0),
            delete_children=delete_children,
            research=ResearchEnvs(checkout, PackageSource(None, {}), FixedClock(), ActiveRuns(tasks.create_task), tasks.create_task),
            spawn=tasks.create_task,
        )
        everything = Opened(checkout, registry, lifecycle, Converged(), tasks)
        everything.gate.set()
        everything.converged = await registry.start()
        try:
            yield everything
        finally:
            everything.gate.set()
            await everything.settled()
            await registry.close()
            await database.close()


def tree(root: Path) -> dict[str, int]:
    """Every path below `root` and its permission bits, without SQLite's own and what an environment consists of."""
    found = {str(path.relative_to(root)): path.lstat().st_mode & 0o777 for path in sorted(root.rglob("*"))}
    return {name: mode for name, mode in found.items() if not name.endswith(("-wal", "-shm")) and "/worker-env/" not in name}
