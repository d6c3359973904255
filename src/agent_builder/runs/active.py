"""ActiveRuns: the Runs that have a slot, of all Agents together."""

import asyncio
import logging

from agent_builder.protocol.errors import AgentBusy, AgentDraining, RunLimit
from agent_builder.protocol.limits import ACTIVE_RUNS
from agent_builder.runs.run import Run
from agent_builder.runs.workers import Spawn

log = logging.getLogger(__name__)


class ActiveRuns:
    """At most ACTIVE_RUNS. A slot is reserved before the Turn exists and free again when the Run has left nothing behind."""

    def __init__(self, start_task: Spawn) -> None:
        self._start_task = start_task
        self._reserved: dict[str, str] = {}  # Run to Agent
        self._runs: dict[str, Run] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._fenced: dict[str, str] = {}  # Agent to the sentence that says why
        self._changed = asyncio.Event()  # of the next slot that becomes free

    @property
    def count(self) -> int:
        return len(self._reserved) + len(self._runs)

    def reserve(self, agent_id: str, run_id: str) -> None:
        """Raises RunLimit, AgentDraining (the Agent is fenced)."""
        if agent_id in self._fenced:
            raise AgentDraining(self._fenced[agent_id])
        if self.count >= ACTIVE_RUNS:
            raise RunLimit
        self._reserved[run_id] = agent_id

    def release(self, run_id: str) -> None:
        """Gives up a reservation; without effect once the Run has started."""
        if self._reserved.pop(run_id, None) is not None:
            self._tell()

    def fence(self, agent_id: str, reason: str) -> None:
        """No Run of this Agent begins until `unfence`. Raises AgentBusy while one is active or about to start."""
        if self.of_agent(agent_id) or agent_id in self._reserved.values():
            raise AgentBusy
        self._fenced[agent_id] = reason

    def unfence(self, agent_id: str) -> None:
        self._fenced.pop(agent_id, None)

    def start(self, run: Run) -> None:
        """Turns the reservation of this Run into the Run itself."""
        del self._reserved[run.identity.run_id]
        self._runs[run.identity.run_id] = run
        self._tell()
        self._tasks[run.identity.run_id] = self._start_task(self._execute(run))

    def get(self, run_id: str) -> Run | None:
        return self._runs.get(run_id)

    def of_agent(self, agent_id: str) -> list[Run]:
        return [run for run in self._runs.values() if run.identity.agent_id == agent_id]

    def of_conversation(self, conversation_id: str) -> Run | None:
        """The newest one: an older Run of the Conversation may still be cleaning up."""
        runs = [run for run in self._runs.values() if run.identity.conversation_id == conversation_id]
        return runs[-1] if runs else None

    async def drain(self, agent_id: str) -> None:
        """Ends all Runs of an Agent, those that are about to start too; returns when they have left nothing behind."""
        while (runs := self.of_agent(agent_id)) or agent_id in self._reserved.values():
            for run in runs:
                run.cancel()
            await self._changed.wait()

    async def ended(self, run_id: str) -> None:
        """Returns when this Run has left nothing behind; at once where there is no such Run."""
        while run_id in self._runs:
            await self._changed.wait()

    async def idle(self) -> None:
        """Returns when no Run is active."""
        while self._runs:
            await self._changed.wait()

    def cancel_all(self) -> None:
        for run in self._runs.values():
            run.cancel()

    async def abandon(self) -> None:
        """Ends the Runs that could not be ended in order, such as one whose terminal finds no space: recovery writes it."""
        for task in self._tasks.values():
            task.cancel()
        await self.idle()

    async def _execute(self, run: Run) -> None:
        try:
            await run.execute()
        except Exception:
            log.exception("a Run could not be ended; recovery will do it at the next start")
        finally:
            del self._runs[run.identity.run_id], self._tasks[run.identity.run_id]
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
