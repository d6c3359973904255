"""A Worker's end below a Run: what cannot be cleaned up fells nobody."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.runs.worker_process import WorkerHome, WorkerProcess
from tests.support.run_bench import RunBench, real_workers, run_bench


@pytest.fixture
async def bench(tmp_path: Path, worker_env: Path) -> AsyncIterator[RunBench]:
    async with run_bench(tmp_path, worker_env) as made:
        yield made


async def test_a_root_that_cannot_be_removed_fails_no_run_and_is_told(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(path)

    with monkeypatch.context() as patched:
        patched.setattr("agent_builder.runs.worker_process.shutil.rmtree", refuse)
        done = await bench.run(real_workers(bench.clock))
    assert done.terminal == "run.completed"
    assert [path.name for path in bench.runs_root.iterdir()] == [done.run_id]
    assert "cannot be removed" in caplog.text
    shutil.rmtree(bench.runs_root / done.run_id)
    assert (await bench.run(real_workers(bench.clock))).terminal == "run.completed"


async def test_a_spawn_that_is_cancelled_leaves_no_directory(bench: RunBench) -> None:
    for turns in range(1, 12):
        home = WorkerHome(bench.worker_env, bench.runs_root / "one")
        spawning = asyncio.create_task(WorkerProcess.spawn(home, bench.clock))
        for _ in range(turns):
            await asyncio.sleep(0)
        spawning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await spawning
        assert list(bench.runs_root.iterdir()) == []
