"""Ends one child process in stages and tells how it really ended."""

import asyncio
import signal

from agent_builder.sandbox.process_identity import ProcessIdentity, send_signal

_STAGES = (None, signal.SIGTERM, signal.SIGKILL)


async def terminate(process: asyncio.subprocess.Process, identity: ProcessIdentity, grace_s: float) -> int:
    """Closes its stdin, then SIGTERM, then SIGKILL, each after `grace_s` seconds; only ever this exact process. Returns the
    true exit code, or the negated signal number. Safe to call for a process that has ended already."""
    _close_stdin(process)
    for stage in _STAGES:
        if stage is not None:
            send_signal(identity, stage)
        ended = await _ended_within(process, None if stage is signal.SIGKILL else grace_s)
        if ended is not None:
            return ended
    raise AssertionError("SIGKILL is waited for without bound")


async def kill(process: asyncio.subprocess.Process, identity: ProcessIdentity) -> int:
    """SIGKILL at once, for an end that may not wait. Returns like `terminate`."""
    _close_stdin(process)
    send_signal(identity, signal.SIGKILL)
    return await process.wait()


def _close_stdin(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()


async def _ended_within(process: asyncio.subprocess.Process, seconds: float | None) -> int | None:
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        return None
