import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

import pytest

from agent_builder.sandbox.process_identity import ProcessIdentity, identify
from agent_builder.sandbox.termination import kill, terminate

POLITE = "import sys; print('x', flush=True); sys.stdin.read(); sys.exit(7)"
DEAF = "import time; print('x', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(600)"
GRACE_S = 0.2
LONG_GRACE_S = 60


async def started(script: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def test_a_process_that_reads_its_stdin_ends_by_itself_with_its_own_code() -> None:
    process = await started(POLITE)
    assert await terminate(process, identify(process.pid), LONG_GRACE_S) == 7


@pytest.mark.parametrize(("script", "ending"), [(DEAF, signal.SIGTERM), (STUBBORN, signal.SIGKILL)])
async def test_each_stage_follows_when_the_one_before_did_not_help(script: str, ending: signal.Signals) -> None:
    process = await started(script)
    assert await terminate(process, identify(process.pid), GRACE_S) == -ending


async def test_a_process_that_has_ended_keeps_its_true_status() -> None:
    process = await started(POLITE)
    identity = identify(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()
    assert await terminate(process, identity, LONG_GRACE_S) == 7
    assert await kill(process, identity) == 7


async def test_another_identity_is_never_signalled() -> None:
    """Its stdin is closed, so the process ends by itself, with its own code and not by a signal."""
    process = await started(POLITE)
    other = identify(process.pid)._replace(start_ticks=1)
    assert await kill(process, other) == 7


FLOOD = "import sys, time; sys.stdout.write('x\\n' + 'y' * 10_000_000); sys.stdout.flush(); time.sleep(600)"


@pytest.mark.parametrize("end", [lambda p, i: terminate(p, i, GRACE_S), kill], ids=["terminate", "kill"])
async def test_a_process_that_floods_a_pipe_nobody_reads_is_ended_too(
    end: Callable[[asyncio.subprocess.Process, ProcessIdentity], Awaitable[int]],
) -> None:
    process = await started(FLOOD)
    assert await asyncio.wait_for(end(process, identify(process.pid)), LONG_GRACE_S) in (-signal.SIGTERM, -signal.SIGKILL)


async def test_a_stream_that_somebody_else_reads_is_left_to_them() -> None:
    process = await started("import sys; print('x', flush=True); sys.stdin.read(); print('last words')")
    assert process.stdout is not None
    reader = asyncio.create_task(process.stdout.read())
    await asyncio.sleep(0)
    assert await terminate(process, identify(process.pid), LONG_GRACE_S) == 0
    assert await reader == b"last words\n"
