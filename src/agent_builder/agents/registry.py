"""AgentRegistry: the Agents of this checkout, their opened runtimes, and the changes they go through.

The registry database is the authority. `_rows` mirrors it so that every request can be let in or turned away at once; it
changes only behind a commit. Long work (upgrade, delete) is fenced when the call returns and finishes in the background.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from agent_builder.agents.lifecycle import Converged, Lifecycle
from agent_builder.agents.phase import Facts, Phase, derive_phase
from agent_builder.agents.research_envs import ResearchEnvs, ResearchStatus
from agent_builder.conversations.titles import checked_title
from agent_builder.protocol.delegation import OtherAgent
from agent_builder.protocol.errors import AgentDamaged, AgentDraining, NotFound, ProtectedAgent
from agent_builder.protocol.ids import AgentId
from agent_builder.storage.delegations import Place
from agent_builder.storage.registry import AgentRow, AgentState

if TYPE_CHECKING:
    from agent_builder.agents.runtime import AgentRuntime

T = TypeVar("T")
Spawn = Callable[[Coroutine[Any, Any, None]], object]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentView:
    """An Agent as its operator sees it. `running`: active Runs. `waiting`: calls that wait for a decision."""

    agent_id: str
    name: str
    system: bool
    generation: int
    phase: Phase
    running: int
    created_at: datetime
    waiting: int = 0


class AgentRegistry:
    """`open_runtime` makes an Agent's object graph; `drain` ends all Runs of an Agent and returns when they have left
    nothing; `active_runs` counts them; `delete_children` removes Conversations that its delegations made in other Agents; `research`: what
    changes the Agents' research environments; `spawn` starts background work, in a TaskGroup that outlives requests."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        *,
        open_runtime: "Callable[[AgentRow], Awaitable[AgentRuntime]]",
        drain: Callable[[str], Awaitable[None]],
        active_runs: Callable[[str], int],
        delete_children: Callable[[Sequence[Place]], Awaitable[None]],
        research: ResearchEnvs,
        spawn: Spawn,
    ) -> None:
        self._lifecycle = lifecycle
        self._open_runtime = open_runtime
        self._drain = drain
        self._active_runs = active_runs
        self._delete_children = delete_children
        self._research = research
        self._spawn = spawn
        self._rows: dict[str, AgentRow] = {}
        self._opened: dict[str, AgentRuntime] = {}
        self._damaged: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._closed = False

    async def start(self) -> Converged:
        """Once, before anything else: converges what the last process left and reads the Agents."""
        converged = await self._lifecycle.converge()
        self._rows = {row.agent_id: row for row in await self._lifecycle.agents()}
        self._damaged = dict(converged.damaged)
        return converged

    async def create(self, name: str) -> AgentRow:
        """Raises InvalidRequest (name), AgentLimit, StorageFull. Visible when it is whole."""
        return await self._undisturbed(self._create(checked_title(name)))

    async def rename(self, agent_id: str, name: str) -> AgentRow:
        """Display metadata only. Raises NotFound, ProtectedAgent, AgentDraining (being deleted), InvalidRequest."""
        row = await self.get(agent_id)
        if row.system:
            raise ProtectedAgent
        if row.state is AgentState.DELETING:
            raise AgentDraining
        return await self._undisturbed(self._rename(row.agent_id, checked_title(name)))

    async def list(self) -> list[AgentRow]:
        """The system Agent first, then the oldest."""
        return [*self._rows.values()]

    async def get(self, agent_id: str) -> AgentRow:
        """Raises NotFound."""
        row = self._rows.get(agent_id)
        if row is None:
            raise NotFound
        return row

    def usable(self) -> Sequence[OtherAgent]:
        """The Agents that can be asked for something now, in the order of `list`. From any thread."""
        rows = [row for row in [*self._rows.values()] if row.state is AgentState.ACTIVE and row.agent_id not in self._damaged]
        return [OtherAgent(row.agent_id, row.name, row.generation) for row in rows]

    async def upgrade(self, agent_id: str) -> AgentRow:
        """Fences the Agent and returns; the new generation is built in the background, the view's phase shows it.
        Raises NotFound, ProtectedAgent, AgentDraining (another change is in progress)."""
        row = await self.get(agent_id)
        if self._research.changing(row.agent_id):
            raise AgentDraining
        return await self._undisturbed(self._begin(row.agent_id, AgentState.UPGRADING, self._finish_upgrade))

    async def delete(self, agent_id: str) -> AgentRow:
        """Fences the Agent and returns; everything of it goes in the background, an installation in progress is ended. Raises as
        `upgrade` does."""
        row = await self.get(agent_id)
        return await self._undisturbed(self._begin(row.agent_id, AgentState.DELETING, self._finish_deletion))

    async def research_status(self, agent_id: str) -> ResearchStatus:
        """Raises NotFound."""
        return self._research.status((await self.get(agent_id)).agent_id)

    async def install_research(self, agent_id: str) -> ResearchStatus:
        """Begins in the background; the status shows the progress. Raises NotFound, AgentDraining (another change is in progress),
        AgentBusy (active Runs)."""
        return self._research.install(self._changeable(agent_id).agent_id)

    async def remove_research(self, agent_id: str) -> None:
        """Returns when it is gone; ends an installation in progress. Raises as `install_research` does."""
        await self._undisturbed(self._research.remove(self._changeable(agent_id).agent_id))

    async def runtime(self, agent_id: str) -> "AgentRuntime":
        """Opened on first use. Raises NotFound, AgentDraining, AgentDamaged, StorageFull."""
        self._must_serve(agent_id)
        if agent_id not in self._opened:
            await self._undisturbed(self._open(agent_id))
            self._must_serve(agent_id)
        return self._opened[agent_id]

    def view(self, row: AgentRow) -> AgentView:
        runs = self._active_runs(row.agent_id)
        facts = Facts(
            state=row.state, data=self._lifecycle.has_data(row.agent_id), environment=self._lifecycle.has_environment(row),
            damaged=row.agent_id in self._damaged, active_runs=runs,
        )
        runtime = self._opened.get(row.agent_id)
        waiting = len(runtime.permissions.pending()) if runtime and runs else 0
        return AgentView(row.agent_id, row.name, row.system, row.generation, derive_phase(facts), runs, row.created_at, waiting)

    async def end_tasks(self) -> None:
        """No Task begins any more, and those that are active end."""
        await asyncio.gather(*(runtime.tasks.close() for runtime in self._opened.values()))

    async def close(self) -> None:
        """After all Runs have ended: closes every runtime. May be called again."""
        self._closed = True
        for agent_id in [*self._opened]:
            await self._close_runtime(agent_id)

    # Changes

    async def _create(self, name: str) -> AgentRow:
        row = await self._lifecycle.create(name)
        self._rows[row.agent_id] = row
        return row

    async def _rename(self, agent_id: AgentId, name: str) -> AgentRow:
        await self._lifecycle.rename(agent_id, name)
        row = self._rows[agent_id] = replace(self._rows[agent_id], name=name)
        return row

    async def _begin(
        self, agent_id: AgentId, state: AgentState, finish: Callable[[AgentRow], Coroutine[Any, Any, None]]
    ) -> AgentRow:
        row = self._rows[agent_id] = await self._lifecycle.begin(agent_id, state)
        self._spawn(finish(row))
        return row

    async def _finish_upgrade(self, row: AgentRow) -> None:
        try:
            await self._retire(row)
        except Exception:  # noqa: BLE001 - logged; what fails for one Agent must not fell the others
            _log.exception("upgrade of Agent %s given up", row.agent_id)
            self._replace_row(await self._lifecycle.give_up(row))
            return
        try:
            self._replace_row(await self._lifecycle.upgrade(row))
            self._damaged.pop(row.agent_id, None)
        except Exception:  # noqa: BLE001 - logged; the lifecycle has taken the upgrade back
            _log.exception("upgrade of Agent %s failed", row.agent_id)
            self._replace_row(await self._lifecycle.agent(row.agent_id))

    async def _finish_deletion(self, row: AgentRow) -> None:
        try:
            await self._retire(row)
            await self._research.stop(row.agent_id)
            children = await self._lifecycle.children(row)
            await self._lifecycle.delete(row)
        except Exception:  # noqa: BLE001 - logged; the row says deleting, and the next start goes on from here
            _log.exception("deletion of Agent %s is not finished", row.agent_id)
            return
        for known in (self._rows, self._damaged, self._locks):
            known.pop(row.agent_id, None)
        self._research.forget(row.agent_id)
        await self._delete_children(children)

    def _replace_row(self, row: AgentRow) -> None:
        """The name may have changed meanwhile; it is the mirror's that is newest."""
        self._rows[row.agent_id] = replace(row, name=self._rows[row.agent_id].name)

    # Runtimes

    async def _open(self, agent_id: str) -> None:
        async with self._lock(agent_id):
            self._must_serve(agent_id)
            if agent_id in self._opened:
                return
            row = self._rows[agent_id]
            try:
                await self._lifecycle.prepare(row)
                self._opened[agent_id] = await self._open_runtime(row)
            except AgentDamaged as error:
                self._damaged[agent_id] = error.message
                raise

    async def _retire(self, row: AgentRow) -> None:
        """Of a fenced Agent: no new Run begins any more, so it is enough to look once."""
        await self._drain(row.agent_id)
        await self._close_runtime(row.agent_id)

    async def _close_runtime(self, agent_id: str) -> None:
        async with self._lock(agent_id):
            runtime = self._opened.pop(agent_id, None)
            if runtime is not None:
                await runtime.close()

    def _lock(self, agent_id: str) -> asyncio.Lock:
        """Keeps two first requests from opening one Agent twice, and a change from closing it while it opens."""
        return self._locks.setdefault(agent_id, asyncio.Lock())

    def _changeable(self, agent_id: str) -> AgentRow:
        row = self._rows.get(agent_id)
        if row is None:
            raise NotFound
        if self._closed or row.state is not AgentState.ACTIVE:
            raise AgentDraining
        return row

    def _must_serve(self, agent_id: str) -> None:
        self._changeable(agent_id)
        if agent_id in self._damaged:
            raise AgentDamaged(self._damaged[agent_id])

    async def _undisturbed(self, work: Coroutine[Any, Any, T]) -> T:
        """A client that hangs up does not cut what it asked for: the work ends as a task of its own."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def carry() -> None:
            try:
                done.set_result(await work)
            except Exception as error:  # noqa: BLE001 - handed to the one who waits, whatever it is
                done.set_exception(error)
            finally:
                done.cancel()  # without effect on a future that is done

        self._spawn(carry())
        return await asyncio.shield(done)
