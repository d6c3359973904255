"""ActiveRuns: the Runs that have a slot, of all Agents together."""

import asyncio

from agent_builder.protocol.errors import RunLimit
from agent_builder.protocol.limits import ACTIVE_RUNS
from agent_builder.runs.run import Run
from agent_builder.runs.workers import Spawn


class ActiveRuns:
    """At most ACTIVE_RUNS. A slot is reserved before the Turn exists and free again when the Run has left nothing behind."""

    def __init__(self, start_task: Spawn) -> None:
        self._start_task = start_task
        self._reserved: set[str] = set()
        self._runs: dict[str, Run] = {}
        self._ended = asyncio.Event()  # of the next Run that ends

    @property
    def count(self) -> int:
        return len(self._reserved) + len(self._runs)

    def reserve(self, run_id: str) -> None:
        """Raises RunLimit."""
        if self.count >= ACTIVE_RUNS:
            raise RunLimit
        self._reserved.add(run_id)

    def release(self, run_id: str) -> None:
        self._reserved.discard(run_id)

    def start(self, run: Run) -> None:
        """Turns the reservation of this Run into the Run itself."""
        self._reserved.remove(run.identity.run_id)
        self._runs[run.identity.run_id] = run
        self._start_task(self._execute(run))

    def get(self, run_id: str) -> Run | None:
        return self._runs.get(run_id)

    def of_agent(self, agent_id: str) -> list[Run]:
        return [run for run in self._runs.values() if run.identity.agent_id == agent_id]

    def of_conversation(self, conversation_id: str) -> Run | None:
        """The newest one: an older Run of the Conversation may still be cleaning up."""
        runs = [run for run in self._runs.values() if run.identity.conversation_id == conversation_id]
        return runs[-1] if runs else None

    async def drain(self, agent_id: str) -> None:
        """Ends all Runs of an Agent; returns when they have left nothing behind."""
        for run in self.of_agent(agent_id):
            run.cancel()
        while self.of_agent(agent_id):
            await self._ended.wait()

    async def idle(self) -> None:
        """Returns when no Run is active."""
        while self._runs:
            await self._ended.wait()

    def cancel_all(self) -> None:
        for run in self._runs.values():
            run.cancel()

    async def _execute(self, run: Run) -> None:
        try:
            await run.execute()
        finally:
            del self._runs[run.identity.run_id]
            self._ended.set()
            self._ended = asyncio.Event()
