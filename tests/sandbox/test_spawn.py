import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from agent_builder.sandbox.spawn import spawn

LOOPS: list[Callable[..., Any]] = [asyncio.run, uvloop.run]
ECHO = "import os, sys; sys.stdout.write(sys.stdin.readline() + os.getcwd() + ' ' + repr(dict(os.environ))); sys.stderr.write('aside'); sys.exit(3)"
on_both_loops = pytest.mark.parametrize("run", LOOPS, ids=["asyncio", "uvloop"])


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def python(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


@on_both_loops
def test_a_child_has_three_pipes_its_directory_and_its_environment_and_its_status_is_true(run: Callable[..., Any], tmp_path: Path) -> None:
    async def scene() -> None:
        process = await spawn(python(ECHO), tmp_path, {"LC_ALL": "C"}, limit=4096)
        out, aside = await process.communicate(b"said\n")
        assert out == f"said\n{tmp_path} {{'LC_ALL': 'C'}}".encode()
        assert (aside, process.returncode) == (b"aside", 3)

    before = children()
    run(scene())
    assert children() == before


@on_both_loops
def test_a_child_leads_a_session_and_inherits_no_descriptor_unless_told_otherwise(run: Callable[..., Any], tmp_path: Path) -> None:
    script = "import os; print(os.getsid(0) == os.getpid(), [n for n in range(3, 999) if os.path.exists(f'/proc/self/fd/{n}')])"

    async def scene() -> None:
        with open(os.devnull, "rb") as kept:
            os.set_inheritable(kept.fileno(), True)
            alone = await (await spawn(python(script), tmp_path, {}, limit=4096)).communicate()
            given = await (await spawn(python(script), tmp_path, {}, limit=4096, pass_fds=[kept.fileno()], new_session=False)).communicate()
            assert (alone[0], given[0]) == (b"True []\n", f"False [{kept.fileno()}]\n".encode())

    run(scene())


@on_both_loops
def test_a_signal_that_ended_a_child_is_its_status(run: Callable[..., Any], tmp_path: Path) -> None:
    async def scene() -> None:
        process = await spawn(python("import sys; sys.stdin.read()"), tmp_path, {}, limit=4096)
        process.kill()
        assert await process.wait() == -9

    run(scene())


@on_both_loops
def test_a_program_that_is_not_there_leaves_neither_process_nor_descriptor(run: Callable[..., Any], tmp_path: Path) -> None:
    async def scene() -> None:
        open_before = os.listdir("/proc/self/fd")
        with pytest.raises(FileNotFoundError):
            await spawn([str(tmp_path / "nothing")], tmp_path, {}, limit=4096)
        assert os.listdir("/proc/self/fd") == open_before

    run(scene())


@on_both_loops
def test_whoever_is_cancelled_while_a_child_starts_leaves_none_behind(run: Callable[..., Any], tmp_path: Path) -> None:
    async def scene() -> None:
        before = children()
        for turns in range(6):  # of the loop: the cancel meets every step of the start
            task = asyncio.create_task(spawn(python("import sys; sys.stdin.read()"), tmp_path, {}, limit=4096))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                process = await task
            except asyncio.CancelledError:
                pass
            else:
                process.kill()
                await process.wait()
            assert children() == before

    run(scene())
