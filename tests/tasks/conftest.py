"""An Agent's background Tasks over a real database, workspace and sandbox."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_builder.storage.database import Database
from agent_builder.storage.tasks import TaskRow
from agent_builder.storage.turn_rows import TurnRow
from agent_builder.tasks.active import ActiveTasks
from agent_builder.tasks.background import BackgroundTasks, TaskParts
from tests.support.capability import SLOW, put
from tests.support.clock import MovableClock
from tests.support.confined import worker_env
from tests.support.stored import completed, conversation, open_state

__all__ = ["worker_env"]


@dataclass
class Bench:
    """`turn`: what the Run is of that Tasks are started beside."""

    database: Database
    workspace: Path
    roots: Path
    parts: TaskParts
    turn: TurnRow
    running: set[asyncio.Task[None]]
    tasks: BackgroundTasks = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = BackgroundTasks(self.parts)

    def file(self, path: str, content: str) -> None:
        put(self.workspace, path, content)

    def slow_sources(self) -> None:
        for number in range(12):
            self.file(f"{number}.py", SLOW)

    async def submit(self) -> TaskRow:
        return await self.tasks.submit(self.turn.run_id)

    async def ended(self, task: TaskRow) -> TaskRow:
        """When it is over."""
        active = self.parts.active.get(task.task_id)
        if active is not None:
            await asyncio.wait_for(active.over.wait(), 20)
        return await self.tasks.get(task.task_id)

    async def until_running(self, task: TaskRow) -> None:
        """Until its command is at work: its copy is there and a process has been started."""
        work, children = self.roots / task.task_id / "work", Path(f"/proc/self/task/{self._pid}/children")
        async with asyncio.timeout(20):
            while not (work.exists() and children.read_text().split()):
                await asyncio.sleep(0)

    @property
    def _pid(self) -> str:
        return str(Path("/proc/self").resolve().name)

    def left(self) -> list[str]:
        return [path.name for path in self.roots.iterdir()] if self.roots.exists() else []


@pytest.fixture
async def bench(tmp_path: Path, worker_env: Path) -> AsyncIterator[Bench]:
    root, running = tmp_path.resolve(), set()
    workspace = root / "workspace"
    workspace.mkdir(mode=0o700)
    database = await open_state(root)

    def start(work):
        task = asyncio.get_running_loop().create_task(work)
        running.add(task)
        task.add_done_callback(running.discard)
        return task

    parts = TaskParts(
        database=database, clock=MovableClock(), active=ActiveTasks(), workspace=workspace, worker_env=worker_env,
        tasks_root=root / "tasks", command_turn=asyncio.Lock(), start_task=start,
    )
    turn = await database.run(lambda conn: completed(conn, conversation(conn)))
    yield (made := Bench(database, workspace, root / "tasks", parts, turn, running))
    await made.tasks.close()
    await asyncio.gather(*running)
    await database.close()
