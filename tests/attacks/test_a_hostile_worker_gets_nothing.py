"""A Worker that has been taken over sits in its sandbox and speaks to the host: whatever it does, its Run ends in one way,
nothing is changed, no word of it is heard, it is gone, and the next Turn works."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.protocol.events import Event
from agent_builder.protocol.limits import RUN_MAX_S, WORKER_READY_S
from agent_builder.protocol.model_profile import Budgets
from agent_builder.runs.run import Run
from tests.support.hostile_env import make_hostile
from tests.support.run_bench import Done, RunBench, proposed, real_workers, run_bench, snapshot

WRITE = proposed("file/write", path="new.txt", content="x")

BEFORE_READY = ["cannot be confined", "is not confined", "floods before ready", "says something else first", "has another catalog", "is another process"]

AFTER_READY = {
    "exits quietly": "worker_crashed", "exits loudly": "worker_crashed", "says ready again": "worker_protocol",
    "floods without a line": "worker_protocol", "floods with frames": "worker_protocol", "sends binary": "worker_protocol",
    "floods stderr": "worker_protocol", "does not let itself be ended": "worker_protocol",
    "answers without a model": "worker_protocol", "names another answer": "worker_protocol",
    "calls what nobody proposed": "worker_protocol", "changes the arguments": "worker_protocol", "changes the tool": "worker_protocol",
    "brings a result of its own": "worker_protocol", "takes a call up twice": "worker_protocol",
    "names a result that never was": "worker_protocol", "asks under another plan": "worker_protocol",
    "asks without end": "worker_protocol", "gives up with words of its own": "worker_protocol", "fills its directory": "run_tree_limit",
    "closes its pipes and stays": "worker_crashed", "floods while nobody reads": "worker_protocol",
    "leaves while an approval waits": "worker_crashed",
}


@pytest.fixture
async def bench(tmp_path: Path, worker_env: Path) -> AsyncIterator[RunBench]:
    taken_over = tmp_path.resolve() / "worker-env"
    shutil.copytree(worker_env, taken_over)
    make_hostile(taken_over)
    async with run_bench(tmp_path, taken_over) as made:
        (made.workspace / "a.md").write_text("one\n")
        (made.workspace / "a.md").chmod(0o600)
        yield made


def processes_in(directory: Path) -> list[str]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += [entry] if os.readlink(f"/proc/{entry}/cwd").startswith(str(directory)) else []
        except OSError:
            continue
    return found


async def nothing_came_of(done: Done, bench: RunBench, before: object, code: str) -> None:
    assert (done.terminal, done.code, done.turn.state) == ("run.failed", code, "failed")
    assert done.journal[-1] == done.events[-1]
    assert "HOSTILE" not in str(done)
    assert snapshot(bench.workspace) == before
    assert not processes_in(bench.directory)
    assert not list(bench.runs_root.iterdir())
    assert not bench.permissions.pending()
    (bench.worker_env / "attack").unlink(missing_ok=True)
    bench.model.answers.clear()
    bench.model.says("all is well")
    assert (await bench.run(real_workers(bench.clock), "hello")).turn.assistant_text == "all is well"


@pytest.mark.parametrize(("attack", "code"), AFTER_READY.items())
async def test_after_ready(bench: RunBench, attack: str, code: str) -> None:
    before = snapshot(bench.workspace)
    bench.model.calls(WRITE)
    bench.decision = "" if "approval" in attack else "deny"
    done = await bench.run(real_workers(bench.clock), f"attack: {attack}")
    await nothing_came_of(done, bench, before, code)


@pytest.mark.parametrize("moment", ["run.started", "model.response.finished"], ids=["while it starts", "while it runs"])
async def test_one_that_does_nothing_is_ended_at_the_deadline(bench: RunBench, moment: str) -> None:
    before = snapshot(bench.workspace)

    def advance(event: Event, run: Run) -> None:
        if event.type == moment:
            bench.clock.advance(bench.qualified.profile.budgets.run_s)

    done = await bench.run(real_workers(bench.clock), "attack: does nothing", meanwhile=advance)
    await nothing_came_of(done, bench, before, "run_deadline")


async def test_one_that_is_killed_before_ready_has_crashed(bench: RunBench) -> None:
    before = snapshot(bench.workspace)
    (bench.worker_env / "attack").write_text("kills itself")
    done = await bench.run(real_workers(bench.clock), "hello")
    await nothing_came_of(done, bench, before, "worker_crashed")


@pytest.mark.parametrize("attack", BEFORE_READY)
async def test_before_ready(bench: RunBench, attack: str) -> None:
    before = snapshot(bench.workspace)
    (bench.worker_env / "attack").write_text(attack)
    done = await bench.run(real_workers(bench.clock), "hello")
    await nothing_came_of(done, bench, before, "sandbox_failed")


async def test_one_that_never_says_ready_is_waited_for_ten_seconds(bench: RunBench) -> None:
    before = snapshot(bench.workspace)
    bench.profile(Budgets(run_s=RUN_MAX_S))
    (bench.worker_env / "attack").write_text("never says ready")
    running = asyncio.create_task(bench.run(real_workers(bench.clock), "hello"))
    while not processes_in(bench.runs_root):
        await asyncio.sleep(0.01)
    while not running.done():
        bench.clock.advance(WORKER_READY_S)
        await asyncio.sleep(0.05)
    await nothing_came_of(await running, bench, before, "sandbox_failed")
