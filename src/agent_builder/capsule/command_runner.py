"""Runs one confined command from spawn to reaped: ready, checked, released, bounded, its true end reported."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.protocol.limits import HANDSHAKE_BYTES, PIPE_READ_BYTES, QUALIFICATION_S
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.sandbox.inspection import verify_confined
from agent_builder.sandbox.launch import command_command, release_line
from agent_builder.sandbox.process_identity import ProcessIdentity, identify, send_signal
from agent_builder.sandbox.released import READY_LINE
from agent_builder.sandbox.spawn import spawn
from agent_builder.sandbox.termination import kill

Stopped = Literal["wall_clock", "output"]


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """`status`: the exit code, or the negated number of the signal that ended it. `stopped`: the bound for which the
    Control Plane killed it. `stdout` and `stderr` together have at most the bound of the call."""

    status: int
    stopped: Stopped | None
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class CommandBounds:
    """Seconds from the release, and bytes of stdout and stderr together."""

    wall_s: float
    output_bytes: int


@dataclass(slots=True)
class _Output:
    left: int
    stdout: bytearray
    stderr: bytearray
    overflowed: bool = False

    def take(self, into: bytearray, data: bytes) -> None:
        kept = data[: self.left]
        into += kept
        self.left -= len(kept)
        self.overflowed = self.overflowed or len(kept) < len(data)


async def run_confined(
    profile: str, worker_env: Path, directory: Path, arguments: list[str], bounds: CommandBounds, clock: Clock,
    environment: Mapping[str, str] | None = None,
) -> CommandEnd:
    """Runs the profile's command with `directory` as its working directory, and `environment` beside the profile's own. The
    process is gone when this returns or raises, also when it is cancelled. Raises SandboxFailed when it could not be confined."""
    command, fixed = command_command(profile, worker_env, directory)
    return await run_handshake((command, {**(environment or {}), **fixed}), directory, arguments, bounds, clock)


async def run_handshake(
    launch: tuple[list[str], dict[str, str]], directory: Path, arguments: list[str], bounds: CommandBounds, clock: Clock
) -> CommandEnd:
    """The same for a program with this argument list and environment, as sandbox/launch.py gives them."""
    command, environment = launch
    release = release_line(arguments)
    async with _spawned(command, environment, directory) as (process, identity):
        await _await_ready(process, clock)
        verify_confined(process.pid)
        if identify(process.pid) != identity:
            raise SandboxFailed("The confined command is another process than the one that was started.")
        return await _released(process, identity, release, bounds, clock)


@asynccontextmanager
async def _spawned(
    command: list[str], environment: dict[str, str], directory: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, ProcessIdentity]]:
    process = await spawn(command, directory, environment, limit=HANDSHAKE_BYTES)
    try:
        identity = identify(process.pid)
    except ProcessLookupError as error:
        await process.wait()
        raise SandboxFailed("The confined command ended before it was ready.") from error
    try:
        yield process, identity
    finally:
        _, cancelled = await to_the_end(_reaped(process, identity))
        if cancelled:
            raise asyncio.CancelledError


async def _reaped(process: asyncio.subprocess.Process, identity: ProcessIdentity) -> None:
    """Ends it if it still runs, and reads what is left in its pipes, so that they close."""
    assert process.stdin is not None
    process.stdin.close()
    await kill(process, identity)
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        while await stream.read(PIPE_READ_BYTES):
            pass


async def _await_ready(process: asyncio.subprocess.Process, clock: Clock) -> None:
    assert process.stdout is not None
    try:
        async with clock.timeout(QUALIFICATION_S):
            line = await process.stdout.readline()
    except TimeoutError as error:
        raise SandboxFailed("The confined command was not ready in time.") from error
    if line != READY_LINE:
        raise SandboxFailed("The command could not be confined.")


async def _released(
    process: asyncio.subprocess.Process, identity: ProcessIdentity, release: bytes, bounds: CommandBounds, clock: Clock
) -> CommandEnd:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output = _Output(bounds.output_bytes, bytearray(), bytearray())
    stopped: Stopped | None = None
    process.stdin.write(release)
    process.stdin.close()
    try:
        async with clock.timeout(bounds.wall_s):
            await asyncio.gather(
                _collect(process.stdout, output, output.stdout, identity), _collect(process.stderr, output, output.stderr, identity)
            )
            await process.wait()
    except TimeoutError:
        stopped = "wall_clock"
    if output.overflowed:
        stopped = "output"
    status = await kill(process, identity)
    return CommandEnd(status, stopped, bytes(output.stdout), bytes(output.stderr))


async def _collect(stream: asyncio.StreamReader, output: _Output, into: bytearray, identity: ProcessIdentity) -> None:
    """Reads to the end. Past the bound the process is killed, which ends both streams."""
    while data := await stream.read(PIPE_READ_BYTES):
        output.take(into, data)
        if output.overflowed:
            send_signal(identity, signal.SIGKILL)
