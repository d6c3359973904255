"""BackgroundTasks: commands that an operator starts beside a Run of one Agent, and that go on without a Turn.

A Task is stored as queued before it is accepted, as running when it has the turn that all commands share, and with its end when
nothing of it is left: no process, no root. This is one of the four borders that catch errors: whatever goes wrong becomes the
end of the Task. What a dead process left is interrupted at the next start and never begun again.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_builder.protocol.errors import (
    AgentBuilderError,
    AgentDraining,
    ConversationBusy,
    Internal,
    NotFound,
    StorageFull,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import TASK_NOTIFICATION_BYTES, TERMINAL_RETRY_S
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.runs.workers import Spawn
from agent_builder.storage.database import Database
from agent_builder.storage.tasks import (
    NewTask,
    TaskEnd,
    TaskNotification,
    TaskRow,
    finish_task,
    get_task,
    insert_task,
    list_tasks,
    notifications_of,
    notify,
    start_task,
)
from agent_builder.tasks.active import ActiveTask, ActiveTasks
from agent_builder.tasks.compile_check import TaskOutcome, TaskPlace, compile_in
from agent_builder.tools.cuts import clip

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskParts:
    """The opened things that the Tasks of one Agent work with. `command_turn`: held by the one command that runs."""

    database: Database
    clock: Clock
    active: ActiveTasks
    workspace: Path
    worker_env: Path
    tasks_root: Path
    command_turn: asyncio.Lock
    start_task: Spawn


class BackgroundTasks:
    def __init__(self, parts: TaskParts) -> None:
        self._parts = parts
        self._entry = asyncio.Lock()  # between the look at what is closed and the Task that can be ended
        self._closed = False
        self._leaving: set[str] = set()  # Conversations

    async def submit(self, run_id: str) -> TaskRow:
        """Accepts one runtime-compile beside this Run. Raises NotFound, RunLimit, AgentDraining, ConversationBusy (being deleted),
        StorageFull."""
        row, cancelled = await to_the_end(self._begin(run_id))
        if cancelled:
            raise asyncio.CancelledError
        return row

    async def all(self) -> list[TaskRow]:
        """Newest first, without results."""
        return await self._parts.database.read(list_tasks)

    async def get(self, task_id: str) -> TaskRow:
        """Raises NotFound."""
        return await self._parts.database.read(lambda conn: get_task(conn, task_id))

    async def notifications(self, task_id: str) -> list[TaskNotification]:
        """Raises NotFound."""
        return await self._parts.database.read(lambda conn: notifications_of(conn, task_id))

    async def cancel(self, task_id: str) -> Literal["accepted", "stale"]:
        """Asks for the end; the Task's state says when it is reached. Raises NotFound."""
        task = self._parts.active.get(task_id)
        if task is not None:
            return "accepted" if task.cancel() else "stale"
        await self.get(task_id)
        return "stale"

    @asynccontextmanager
    async def without(self, conversation_id: str) -> AsyncIterator[None]:
        """Ends the Tasks of a Conversation and lets none begin while the block deletes it."""
        self._leaving.add(conversation_id)
        try:
            async with self._entry:
                pass  # whoever was let in before has a Task now that can be ended
            await self._parts.active.end_of(conversation_id)
            yield
        finally:
            self._leaving.discard(conversation_id)

    async def close(self) -> None:
        """No Task begins any more, and those that are active are over. May be called again."""
        self._closed = True
        async with self._entry:
            pass
        await self._parts.active.end_all()

    # One Task

    async def _begin(self, run_id: str) -> TaskRow:
        parts, new = self._parts, NewTask(new_id(), run_id, "runtime-compile", self._parts.clock.now())
        async with self._entry:
            if self._closed:
                raise AgentDraining
            row = await parts.database.run(lambda conn: self._inserted(conn, new))
            running = _Running(parts, row)
            parts.active.add(running.handle)
        parts.start_task(self._carry(running))
        return row

    def _inserted(self, conn: sqlite3.Connection, new: NewTask) -> TaskRow:
        row = insert_task(conn, new)
        if row.conversation_id in self._leaving:
            raise ConversationBusy("This Conversation is being deleted.")
        return row

    async def _carry(self, running: "_Running") -> None:
        try:
            outcome = await running.outcome()
            running.handle.left.set()
            await self._write_end(running.row.task_id, outcome)
        except Exception:
            log.exception("a Task could not be ended; recovery will do it at the next start")
        finally:
            self._parts.active.remove(running.handle)

    async def _write_end(self, task_id: str, outcome: TaskOutcome) -> None:
        """Tried again while the disk is full, unless everything ends: then the next start calls it interrupted."""
        while True:
            end = TaskEnd(task_id, outcome.state, outcome.code, outcome.result, self._parts.clock.now())
            try:
                await self._store(end)
            except NotFound:
                log.info("Task %s ended after its Conversation was deleted", task_id)
            except StorageFull:
                if not self._closed:
                    await self._parts.clock.sleep(TERMINAL_RETRY_S)
                    continue
                log.warning("the end of Task %s could not be stored; it will be interrupted", task_id)
            return

    async def _store(self, end: TaskEnd) -> None:
        def transaction(conn: sqlite3.Connection) -> None:
            finish_task(conn, end)
            notify(conn, end.task_id, end.state, clip(end.result or "", TASK_NOTIFICATION_BYTES), end.now)

        await self._parts.database.run(transaction, terminal=True)


class _Running:
    """One Task from its place in the queue to what is stored of its end."""

    def __init__(self, parts: TaskParts, row: TaskRow) -> None:
        self.row = row
        self.handle = ActiveTask(row.task_id, row.conversation_id, self.cancel)
        self._parts = parts
        self._work: asyncio.Task[TaskOutcome] | None = None
        self._cancelled = False

    def cancel(self) -> bool:
        """False when its end has come already. Asked again, what ends in order is not disturbed."""
        if self.handle.left.is_set():
            return False
        first, self._cancelled = not self._cancelled, True
        if first and self._work is not None:
            self._work.cancel()
        return True

    def was_cancelled(self) -> bool:
        return self._cancelled

    async def outcome(self) -> TaskOutcome:
        if self.was_cancelled():
            return TaskOutcome("cancelled")
        self._work = asyncio.create_task(self._run())
        try:
            return await self._work
        except asyncio.CancelledError:
            if not self.was_cancelled():
                raise  # the Gateway itself is being torn down: recovery will write the end
            return TaskOutcome("cancelled")
        except AgentBuilderError as error:
            return TaskOutcome("failed", error.code, error.message)
        except Exception:
            incident = new_id()[:8]
            log.exception("incident %s in a Task", incident)
            return TaskOutcome("failed", Internal.code, f"{Internal.sentence} (incident {incident})")

    async def _run(self) -> TaskOutcome:
        parts, now = self._parts, self._parts.clock.now
        async with parts.command_turn:
            await parts.database.run(lambda conn: start_task(conn, self.row.task_id, now()))
            return await compile_in(TaskPlace(parts.tasks_root / self.row.task_id, parts.workspace, parts.worker_env, parts.clock))
