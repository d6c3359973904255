"""The Worker as seen by the host: spawned into its own run root, verified, spoken to in bounded frames, ended in stages.

Only this exact process is ever signalled; its true exit status is what `close` returns.
"""

import asyncio
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from agent_builder.protocol.errors import SandboxFailed, WorkerCrashed, WorkerProtocol
from agent_builder.protocol.frames import FrameError, HostFrame, Ready, WorkerFrame, parse_worker, to_message
from agent_builder.protocol.framing import FramingError, decode_frame, encode_frame
from agent_builder.protocol.limits import (
    IPC_FRAME_BYTES,
    IPC_TOTAL_BYTES,
    IPC_TOTAL_FRAMES,
    WORKER_GRACE_S,
    WORKER_READY_S,
    WORKER_STDERR_BYTES,
)
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.sandbox.inspection import verify_confined
from agent_builder.sandbox.launch import worker_command, worker_environment
from agent_builder.sandbox.process_identity import ProcessIdentity, identify
from agent_builder.sandbox.spawn import spawn
from agent_builder.sandbox.termination import terminate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerHome:
    """Where a Worker comes from and where it lives: the sealed directory of a generation, and its own run root."""

    worker_env: Path
    root: Path


class WorkerProcess:
    """One Worker. Made by `spawn`; whoever spawned it calls `close`."""

    def __init__(self, process: asyncio.subprocess.Process, identity: ProcessIdentity, home: WorkerHome, clock: Clock) -> None:
        self.identity = identity
        self.home = home
        self._process = process
        self._clock = clock
        self._received = self._received_bytes = self._stderr_bytes = 0
        self._stderr = b""
        self._stderr_reader = asyncio.create_task(self._drain_stderr())

    @classmethod
    async def spawn(cls, home: WorkerHome, clock: Clock) -> "WorkerProcess":
        """A confined Worker that is READY and has seen no byte of any conversation. Raises SandboxFailed, WorkerCrashed."""
        try:
            home.root.mkdir(parents=True, mode=0o700)
            process = await spawn(worker_command(home.worker_env), home.root, worker_environment(), limit=IPC_FRAME_BYTES)
        except BaseException as error:
            shutil.rmtree(home.root, ignore_errors=True)  # where making it is what failed, it is not there
            if isinstance(error, OSError):
                raise SandboxFailed("A Worker process cannot be started.") from error
            raise
        worker = cls(process, _identity(process.pid), home, clock)
        try:
            await worker._become_ready()
        except BaseException:
            await worker.close()
            raise
        return worker

    async def move(self, root: Path) -> None:
        """Gives a parked Worker its Run's root: the same directory under another name."""
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.rename(self.home.root, root)
        self.home = WorkerHome(self.home.worker_env, root)

    async def send(self, frame: HostFrame) -> None:
        """Raises WorkerCrashed when nobody reads any more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_frame(to_message(frame)))
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise WorkerCrashed from error

    async def receive(self) -> WorkerFrame:
        """The next frame. Raises WorkerCrashed at the end of the stream, WorkerProtocol for anything not in the protocol."""
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
        except ValueError as error:
            raise WorkerProtocol from error
        if not line:
            raise WorkerCrashed(await self._ending())
        self._received += 1
        self._received_bytes += len(line)
        if not line.endswith(b"\n") or self._received > IPC_TOTAL_FRAMES or self._received_bytes > IPC_TOTAL_BYTES:
            raise WorkerProtocol
        try:
            return parse_worker(decode_frame(line))
        except (FramingError, FrameError) as error:
            raise WorkerProtocol from error

    async def crashed(self) -> None:
        """Raises WorkerCrashed as soon as the process has ended badly, or in any way with nothing left to read, also while
        nobody expects a frame of it."""
        assert self._process.stdout is not None
        status = await self._process.wait()
        if status != 0 or self._process.stdout.at_eof():
            raise WorkerCrashed(_ended(status))

    async def flooded(self) -> None:
        """Raises WorkerProtocol when more comes over stderr than a Worker may send in all."""
        await asyncio.shield(self._stderr_reader)

    @property
    def stderr_tail(self) -> str:
        return self._stderr.decode(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def close(self) -> int:
        """Ends this process in stages, reaps it and removes its root. Gives the exit status; negative is a signal."""
        status = await terminate(self._process, self.identity, WORKER_GRACE_S)
        await asyncio.gather(self._stderr_reader, return_exceptions=True)  # a flood has been told by `flooded`
        try:
            await asyncio.to_thread(shutil.rmtree, self.home.root)
        except FileNotFoundError:
            log.info("the root of a Worker was gone already")
        except OSError:
            log.exception("the root of a Worker cannot be removed; the next start tries again")  # no reason to fell other Runs
        return status

    async def _become_ready(self) -> None:
        try:
            async with self._clock.timeout(WORKER_READY_S):
                frame = await self.receive()
        except (TimeoutError, WorkerProtocol) as error:
            raise SandboxFailed from error
        except WorkerCrashed as error:
            await self._tell_why_not_confined()
            raise SandboxFailed from error
        if not isinstance(frame, Ready) or frame.pid != self._process.pid or frame.catalog_digest != CATALOG.digest:
            raise SandboxFailed
        verify_confined(self._process.pid)

    async def _tell_why_not_confined(self) -> None:
        """A Worker that cannot be confined says why on stderr and exits with 1; anything else before READY is a crash."""
        if self._process.returncode != 1:
            raise WorkerCrashed(await self._ending())
        await asyncio.wait({self._stderr_reader})
        log.warning("a Worker could not be confined: %s", self.stderr_tail)

    async def _drain_stderr(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(WORKER_STDERR_BYTES):
            self._stderr = (self._stderr + data)[-WORKER_STDERR_BYTES:]
            self._stderr_bytes += len(data)
            if self._stderr_bytes > IPC_TOTAL_BYTES:
                raise WorkerProtocol

    async def _ending(self) -> str:
        """How it ended, in words, where that is known already."""
        try:
            async with self._clock.timeout(WORKER_GRACE_S):
                status = await self._process.wait()
        except TimeoutError:
            return WorkerCrashed.sentence
        return _ended(status)


def _ended(status: int) -> str:
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return f"The Worker ended unexpectedly ({how})."


def _identity(pid: int) -> ProcessIdentity:
    """Our child is not reaped before we wait for it, so even a dead one keeps its pid; it then has no identity to signal."""
    try:
        return identify(pid)
    except ProcessLookupError:
        return ProcessIdentity(pid, 0, "")
