"""Workers: gives each Run a fresh confined Worker, from the one warm spare where it fits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_builder.protocol.errors import RunError
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import SPARE_IDLE_S
from agent_builder.protocol.ports import Clock
from agent_builder.runs.worker_process import WorkerHome, WorkerProcess

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Workers:
    """Owns the spare: confined, parked, of the Agent used last, used for one Run only."""

    def __init__(self, clock: Clock, start_task: Spawn, *, keep_spare: bool = True) -> None:
        self._clock = clock
        self._start_task = start_task
        self._keep_spare = keep_spare
        self._spare: WorkerProcess | None = None
        self._parking: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None

    @property
    def spare_count(self) -> int:
        return int(self._spare is not None)

    @asynccontextmanager
    async def worker(self, worker_env: Path, root: Path) -> AsyncIterator[WorkerProcess]:
        """A READY Worker whose root is `root`; it is ended and its root removed when the block is left."""
        process = await self._take(worker_env, root)
        try:
            yield process
        finally:
            await process.close()

    def park(self, worker_env: Path, spares: Path) -> None:
        """Prepares a spare of this Agent in the background, unless one is there already."""
        if self._keep_spare and self._parking is None:
            self._parking = self._start_task(self._park(worker_env, spares))

    async def stop_spare(self, worker_env: Path | None = None) -> None:
        """Ends the spare, also one that is just being prepared; with `worker_env` only one that came from there."""
        if self._parking is not None:
            await asyncio.wait({self._parking})
        await self._stop_spare(worker_env)

    async def _stop_spare(self, worker_env: Path | None = None) -> None:
        spare = self._spare
        if spare is not None and worker_env in (None, spare.home.worker_env):
            self._spare = None
            await spare.close()

    async def close(self) -> None:
        self._keep_spare = False
        if self._idle is not None:
            self._idle.cancel()
        await self.stop_spare()

    async def _take(self, worker_env: Path, root: Path) -> WorkerProcess:
        spare = self._spare
        if spare is None or spare.home.worker_env != worker_env:
            return await WorkerProcess.spawn(WorkerHome(worker_env, root), self._clock)
        self._spare = None
        if not spare.running:
            await spare.close()
            return await WorkerProcess.spawn(WorkerHome(worker_env, root), self._clock)
        await spare.move(root)
        return spare

    async def _park(self, worker_env: Path, spares: Path) -> None:
        try:
            if self._spare is not None and self._spare.home.worker_env == worker_env and self._spare.running:
                return
            await self._stop_spare()
            spare = await WorkerProcess.spawn(WorkerHome(worker_env, spares / new_id()), self._clock)
        except RunError:
            return  # a spare only saves time: the Run that spawns its own Worker will report what is wrong
        finally:
            self._parking = None
        if not self._keep_spare:
            await spare.close()
            return
        self._spare = spare
        self._restart_idle()

    def _restart_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._start_task(self._stop_when_idle())

    async def _stop_when_idle(self) -> None:
        await self._clock.sleep(SPARE_IDLE_S)
        self._idle = None
        await self._stop_spare()
