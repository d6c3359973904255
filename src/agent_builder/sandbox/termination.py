"""Ends one child process in stages and tells how it really ended.

asyncio reports an end only after all pipes are closed, and a pipe that nobody reads never closes: a process that floods its
stdout could not be waited for. So what is left in the pipes is read and thrown away meanwhile.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_builder.protocol.limits import PIPE_READ_BYTES
from agent_builder.sandbox.process_identity import ProcessIdentity, send_signal

_STAGES = (None, signal.SIGTERM, signal.SIGKILL)


async def terminate(process: asyncio.subprocess.Process, identity: ProcessIdentity, grace_s: float) -> int:
    """Closes its stdin, then SIGTERM, then SIGKILL, each after `grace_s` seconds; only ever this exact process. Returns the
    true exit code, or the negated signal number. Safe to call for a process that has ended already. Unread output is lost."""
    async with _pipes_emptied(process):
        for stage in _STAGES:
            if stage is not None:
                send_signal(identity, stage)
            ended = await _ended_within(process, None if stage is signal.SIGKILL else grace_s)
            if ended is not None:
                return ended
    raise AssertionError("SIGKILL is waited for without bound")


async def kill(process: asyncio.subprocess.Process, identity: ProcessIdentity) -> int:
    """SIGKILL at once, for an end that may not wait. Returns like `terminate`. Unread output is lost."""
    async with _pipes_emptied(process):
        send_signal(identity, signal.SIGKILL)
        return await process.wait()


@asynccontextmanager
async def _pipes_emptied(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """Closes stdin, and reads stdout and stderr to nowhere while the block runs."""
    if process.stdin is not None:
        process.stdin.close()
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    tasks = [asyncio.create_task(_discard(stream)) for stream in streams]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _discard(stream: asyncio.StreamReader) -> None:
    try:
        while await stream.read(PIPE_READ_BYTES):
            pass
    except RuntimeError:
        return  # somebody else is reading this stream to its end


async def _ended_within(process: asyncio.subprocess.Process, seconds: float | None) -> int | None:
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        return None
