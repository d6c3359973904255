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


class _Coming:
    """A spare that is being prepared. `over` is set when it is there, or `fault` says why it is not."""

    def __init__(self, worker_env: Path) -> None:
        self.worker_env = worker_env
        self.over = asyncio.Event()
        self.fault: RunError | None = None


class Workers:
    """Owns the spare: confined, parked, of the Agent used last, used for one Run only."""

    def __init__(self, clock: Clock, start_task: Spawn, *, keep_spare: bool = True) -> None:
        self._clock = clock
        self._start_task = start_task
        self._keep_spare = keep_spare
        self._spare: WorkerProcess | None = None
        self._coming: _Coming | None = None
        self._parking: asyncio.Task[None] | None = None
        self._wanted: tuple[Path, Path] | None = None  # asked for while another was being prepared
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
        """Prepares a spare of this Agent in the background, unless one is there already. A Run that begins asks for it too: what
        is prepared while the Run is admitted need not be waited for afterwards."""
        if self._parking is not None:
            self._wanted = worker_env, spares
        elif self._keep_spare and not self._fits(worker_env):
            self._coming = _Coming(worker_env)
            self._parking = self._start_task(self._park(self._coming, spares))

    async def stop_spare(self, worker_env: Path | None = None) -> None:
        """Ends the spare, also one that is just being prepared; with `worker_env` only one that came from there."""
        while self._parking is not None:
            if self._wanted is not None and worker_env in (None, self._wanted[0]):
                self._wanted = None
            await asyncio.wait({self._parking})
        await self._stop_spare(worker_env)

    async def _stop_spare(self, worker_env: Path | None = None) -> None:
        spare = self._spare
        if spare is not None and worker_env in (None, spare.home.worker_env):
            self._spare = None
            await spare.close()

    async def close(self) -> None:
        self._keep_spare = False
        await self.stop_spare()
        if self._idle is not None:
            self._idle.cancel()

    async def _take(self, worker_env: Path, root: Path) -> WorkerProcess:
        await self._until_prepared(worker_env)
        spare = self._spare
        if spare is None or not self._fits(worker_env):
            return await WorkerProcess.spawn(WorkerHome(worker_env, root), self._clock)
        self._spare = None
        await spare.move(root)
        return spare

    def _fits(self, worker_env: Path) -> bool:
        return self._spare is not None and self._spare.home.worker_env == worker_env and self._spare.running

    async def _until_prepared(self, worker_env: Path) -> None:
        """Returns at once unless a spare of this Agent is on its way. Raises what kept it from coming."""
        coming = self._coming
        if coming is None or coming.worker_env != worker_env or self._fits(worker_env):
            return
        await coming.over.wait()
        if coming.fault is not None:
            raise coming.fault

    async def _park(self, coming: _Coming, spares: Path) -> None:
        """The one before goes when the new one is there: its end takes time."""
        before, self._spare = self._spare, None
        try:
            self._spare = await WorkerProcess.spawn(WorkerHome(coming.worker_env, spares / new_id()), self._clock)
            self._restart_idle()
        except RunError as error:
            coming.fault = error  # a spare only saves time: told by the Run that waits for it, if one does
        finally:
            coming.over.set()
            self._coming = None
            if before is not None:
                await before.close()
            self._parking = None
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                self.park(*wanted)

    def _restart_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._start_task(self._stop_when_idle())

    async def _stop_when_idle(self) -> None:
        await self._clock.sleep(SPARE_IDLE_S)
        self._idle = None
        await self._stop_spare()
