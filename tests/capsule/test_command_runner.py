import asyncio
import os
from pathlib import Path

import pytest

from agent_builder.capsule.command_runner import CommandBounds, CommandEnd, run_confined
from agent_builder.protocol.errors import SandboxFailed
from agent_builder.sandbox.profiles import COMMAND_BASH
from tests.support.clock import MovableClock

BOUNDS = CommandBounds(wall_s=30, output_bytes=1000)
FLOOD = ["printf", "%010000000d", "1"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = (tmp_path / "place").resolve()
    place.mkdir(mode=0o700)
    return place


async def bash(worker_env: Path, directory: Path, *words: str, bounds: CommandBounds = BOUNDS) -> CommandEnd:
    return await run_confined(COMMAND_BASH.name, worker_env, directory, list(words), bounds, MovableClock())


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


async def test_a_command_runs_and_its_exit_code_is_true(worker_env: Path, directory: Path) -> None:
    assert await bash(worker_env, directory, "printf", "%s|", "a b", "$x", "`id`") == CommandEnd(0, None, b"a b|$x|`id`|", b"")
    assert await bash(worker_env, directory, "false") == CommandEnd(1, None, b"", b"")


async def test_output_up_to_the_bound_is_kept_whole_and_one_byte_more_is_killed(worker_env: Path, directory: Path) -> None:
    whole = await bash(worker_env, directory, "printf", "%01000d", "1")
    assert (whole.status, whole.stopped, len(whole.stdout)) == (0, None, 1000)
    over = await bash(worker_env, directory, "printf", "%01001d", "1")
    assert (over.stopped, len(over.stdout)) == ("output", 1000)


async def test_a_flood_ends_in_a_kill_and_no_process_is_left(worker_env: Path, directory: Path) -> None:
    before = children()
    end = await bash(worker_env, directory, *FLOOD)
    assert (end.status, end.stopped, len(end.stdout)) == (-9, "output", 1000)
    assert children() == before


async def test_a_command_that_takes_too_long_is_killed(worker_env: Path, directory: Path) -> None:
    before = children()
    end = await bash(worker_env, directory, *FLOOD, bounds=CommandBounds(wall_s=0, output_bytes=1_000_000))
    assert (end.status, end.stopped) == (-9, "wall_clock")
    assert children() == before


async def test_a_cancelled_command_leaves_no_process(worker_env: Path, directory: Path) -> None:
    before = children()
    task = asyncio.create_task(bash(worker_env, directory, "true"))
    while children() == before:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == before


async def test_an_environment_without_programs_is_reported_as_a_sandbox_failure(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(SandboxFailed):
        await bash(tmp_path / "nothing", directory, "true")
