"""The one spare Worker: whose it is, when it is prepared, what a Run that waits for it is told. Real confined processes."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from agent_builder.capsule.worker_env import write_worker_env
from agent_builder.protocol.errors import RunError
from agent_builder.protocol.ids import new_id
from agent_builder.runs.workers import Workers
from agent_builder.system_clock import SystemClock


class Agent:
    def __init__(self, folder: Path, name: str) -> None:
        self.home = folder / name
        self.home.mkdir()
        self.worker_env, self.spares = self.home / "worker-env", self.home / "spare"
        write_worker_env(self.worker_env)

    @property
    def root(self) -> Path:
        return self.home / "runs" / new_id()

    @property
    def parked(self) -> list[str]:
        return [path.name for path in self.spares.iterdir()] if self.spares.exists() else []


class Background:
    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self.tasks.add(task)
        return task


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> tuple[Agent, Agent]:
    folder = tmp_path_factory.mktemp("agents")
    return Agent(folder, "first"), Agent(folder, "second")


@pytest.fixture
async def workers(agents: tuple[Agent, Agent]) -> AsyncIterator[Workers]:
    background = Background()
    made = Workers(SystemClock(), background.start)
    yield made
    await made.close()
    for task in background.tasks:
        task.cancel()
    await asyncio.gather(*background.tasks, return_exceptions=True)
    assert [agent.parked for agent in agents] == [[], []]


async def parked(workers: Workers, agent: Agent) -> None:
    workers.park(agent.worker_env, agent.spares)
    async with asyncio.timeout(30):
        while not (workers.spare_count and len(agent.parked) == 1):
            await asyncio.sleep(0)


async def test_a_run_takes_the_spare_with_its_directory(workers: Workers, agents: tuple[Agent, Agent]) -> None:
    agent, _ = agents
    await parked(workers, agent)
    root = agent.root
    async with workers.worker(agent.worker_env, root) as process:
        assert (process.running, process.home.root, root.is_dir(), agent.parked, workers.spare_count) == (True, root, True, [], 0)
    assert not root.exists()


async def test_a_run_that_begins_waits_for_the_spare_that_is_on_its_way(workers: Workers, agents: tuple[Agent, Agent]) -> None:
    agent, _ = agents
    workers.park(agent.worker_env, agent.spares)
    async with workers.worker(agent.worker_env, agent.root) as process:
        assert process.running
        assert (workers.spare_count, agent.parked) == (0, []), "it was the spare itself"


async def test_of_two_runs_that_wait_one_gets_the_spare_and_the_other_its_own(workers: Workers, agents: tuple[Agent, Agent]) -> None:
    agent, _ = agents
    workers.park(agent.worker_env, agent.spares)

    async def use() -> int:
        async with workers.worker(agent.worker_env, agent.root) as process:
            return process.identity.pid

    first, second = await asyncio.gather(use(), use())
    assert first != second


async def test_a_spare_of_another_agent_is_not_used_and_goes_when_the_next_one_is_there(workers: Workers, agents: tuple[Agent, Agent]) -> None:
    first, second = agents
    await parked(workers, first)
    async with workers.worker(second.worker_env, second.root):
        assert (workers.spare_count, len(first.parked)) == (1, 1)
    await parked(workers, second)
    await workers.stop_spare(first.worker_env)
    assert (workers.spare_count, first.parked, len(second.parked)) == (1, [], 1)


async def test_a_spare_that_has_died_is_replaced(workers: Workers, agents: tuple[Agent, Agent]) -> None:
    agent, _ = agents
    await parked(workers, agent)
    spare = workers._spare
    assert spare is not None
    spare._process.kill()
    await spare._process.wait()
    workers.park(agent.worker_env, agent.spares)
    async with workers.worker(agent.worker_env, agent.root) as process:
        assert process.running and process.identity != spare.identity


async def test_a_run_is_told_what_kept_its_spare_from_coming(workers: Workers, tmp_path: Path) -> None:
    workers.park(tmp_path / "nothing", tmp_path / "spare")
    with pytest.raises(RunError):
        async with workers.worker(tmp_path / "nothing", tmp_path / "runs" / "one"):
            raise AssertionError("there is no such Worker")
    with pytest.raises(RunError):
        async with workers.worker(tmp_path / "nothing", tmp_path / "runs" / "two"):
            raise AssertionError("the fault of one spare is not kept for later Runs")
    assert (workers.spare_count, list((tmp_path / "runs").glob("*"))) == (0, [])


async def test_a_spare_that_is_on_its_way_when_all_ends_is_ended_too(agents: tuple[Agent, Agent]) -> None:
    agent, _ = agents
    background = Background()
    workers = Workers(SystemClock(), background.start)
    workers.park(agent.worker_env, agent.spares)
    await workers.close()
    assert (workers.spare_count, agent.parked) == (0, [])
    workers.park(agent.worker_env, agent.spares)
    assert workers.spare_count == 0
    await asyncio.gather(*background.tasks, return_exceptions=True)




async def test_a_spare_asked_for_while_the_one_before_still_goes_comes_afterwards(workers: Workers, agents: tuple[Agent, Agent]) -> None:
    first, second = agents
    await parked(workers, first)
    spare, goes = workers._spare, asyncio.Event()
    assert spare is not None
    close = spare.close

    async def slowly() -> None:
        await goes.wait()
        await close()

    spare.close = slowly  # type: ignore[method-assign]
    workers.park(second.worker_env, second.spares)
    async with workers.worker(second.worker_env, second.root):
        workers.park(second.worker_env, second.spares)
        assert workers.spare_count == 0
        goes.set()
        async with asyncio.timeout(20):
            while not workers.spare_count:
                await asyncio.sleep(0.01)
    await workers.stop_spare(second.worker_env)
    assert (workers.spare_count, first.parked, second.parked) == (0, [], [])
