"""ActiveTasks: the Tasks of one Agent that are queued or running, and how each is ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ActiveTask:
    """`cancel` asks for its end and gives False when that has come already. `left`: its processes and files are gone. `over`: its
    end is stored as well, or will be at the next start."""

    task_id: str
    conversation_id: str
    cancel: Callable[[], bool]
    left: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class ActiveTasks:
    def __init__(self) -> None:
        self._tasks: dict[str, ActiveTask] = {}

    def add(self, task: ActiveTask) -> None:
        self._tasks[task.task_id] = task

    def remove(self, task: ActiveTask) -> None:
        """It has ended, in whatever way."""
        del self._tasks[task.task_id]
        task.left.set()
        task.over.set()

    def get(self, task_id: str) -> ActiveTask | None:
        return self._tasks.get(task_id)

    async def end_of(self, conversation_id: str) -> None:
        """Ends the Tasks of a Conversation; returns when they have left nothing behind."""
        tasks = [task for task in self._tasks.values() if task.conversation_id == conversation_id]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.left.wait()

    async def end_all(self) -> None:
        """Ends every Task; returns when they are over."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.over.wait()
