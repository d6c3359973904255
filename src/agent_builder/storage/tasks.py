"""Tasks: work beside a Run, and what is said about it. Functions of a connection, each for use inside one transaction.

A Task belongs to the Conversation of its Run and goes with it. Its id is the key of everything about it.
"""

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agent_builder.protocol.errors import Internal, NotFound, RunLimit
from agent_builder.protocol.limits import (
    ACTIVE_TASKS,
    TASK_DAYS,
    TASK_NOTIFICATION_BYTES,
    TASK_NOTIFICATIONS,
    TASK_RESULT_BYTES,
    TASKS_KEPT,
)
from agent_builder.storage.stamps import from_micros, from_optional, to_micros

TaskKind = Literal["runtime-compile", "delegate"]
TaskState = Literal["queued", "running", "completed", "failed", "cancelled", "interrupted"]

_MOVES = {
    "queued": frozenset({"running", "failed", "cancelled", "interrupted"}),
    "running": frozenset({"completed", "failed", "cancelled", "interrupted"}),
}
_ACTIVE = "('queued', 'running')"
_COLUMNS = "t.task_id, t.run_id, c.conversation_id, t.kind, t.state, t.created_at, t.started_at, t.finished_at, t.code"
_FROM = "FROM tasks t JOIN conversations c ON c.key = t.conversation"


class IllegalTaskChange(Internal):
    """A Task was to go to a state that cannot follow its own, or to hold more than it may."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """`run_id`: the Run that it stands beside."""

    task_id: str
    run_id: str
    kind: TaskKind
    now: datetime


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """`state` is a terminal one. `code`: a stable word for what was out of the ordinary. `result`: at most TASK_RESULT_BYTES."""

    task_id: str
    state: TaskState
    code: str | None
    result: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class TaskRow:
    """`conversation_id`: of its Run. `started_at`: when it left the queue."""

    task_id: str
    run_id: str
    conversation_id: str
    kind: TaskKind
    state: TaskState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    code: str | None
    result: str | None


@dataclass(frozen=True, slots=True)
class TaskNotification:
    """`position` counts from 1."""

    position: int
    created_at: datetime
    kind: str
    text: str


def insert_task(conn: sqlite3.Connection, new: NewTask) -> TaskRow:
    """A Task in state queued; old ones go where there is no room. Raises NotFound for a Run without a Conversation of its own,
    RunLimit while ACTIVE_TASKS are active."""
    found = conn.execute("SELECT owner FROM turns WHERE run_id = ? AND owner IS NOT NULL", (new.run_id,)).fetchone()
    if found is None:
        raise NotFound
    active: int = conn.execute(f"SELECT count(*) FROM tasks WHERE state IN {_ACTIVE}").fetchone()[0]
    if active >= ACTIVE_TASKS:
        raise RunLimit(f"{ACTIVE_TASKS} Tasks of this Agent are active; cancel one or wait for one to end.", active_tasks=active)
    _keep_newest(conn, new.now, TASKS_KEPT - 1)
    conn.execute(
        "INSERT INTO tasks (task_id, run_id, conversation, kind, state, created_at) VALUES (?, ?, ?, ?, 'queued', ?)",
        (new.task_id, new.run_id, found[0], new.kind, to_micros(new.now)),
    )
    return get_task(conn, new.task_id)


def start_task(conn: sqlite3.Connection, task_id: str, now: datetime) -> TaskRow:
    """queued -> running. Raises NotFound, IllegalTaskChange."""
    _move(get_task(conn, task_id), "running")
    conn.execute("UPDATE tasks SET state = 'running', started_at = ? WHERE task_id = ?", (to_micros(now), task_id))
    return get_task(conn, task_id)


def finish_task(conn: sqlite3.Connection, end: TaskEnd) -> TaskRow:
    """The terminal state, code and result. Raises NotFound, IllegalTaskChange."""
    _move(get_task(conn, end.task_id), end.state)
    if end.result is not None:
        _must_fit(end.result, TASK_RESULT_BYTES)
    conn.execute(
        "UPDATE tasks SET state = ?, code = ?, result = ?, finished_at = ? WHERE task_id = ?",
        (end.state, end.code, end.result, to_micros(end.now), end.task_id),
    )
    return get_task(conn, end.task_id)


def notify(conn: sqlite3.Connection, task_id: str, kind: str, text: str, now: datetime) -> None:
    """Adds a fact about the Task. Raises NotFound, IllegalTaskChange (too many, too long)."""
    position = len(notifications_of(conn, task_id)) + 1
    if position > TASK_NOTIFICATIONS:
        raise IllegalTaskChange(f"A Task has at most {TASK_NOTIFICATIONS} notifications.")
    _must_fit(text, TASK_NOTIFICATION_BYTES)
    conn.execute(
        """INSERT INTO task_notifications (task, position, created_at, kind, text)
           VALUES ((SELECT key FROM tasks WHERE task_id = ?), ?, ?, ?, ?)""",
        (task_id, position, to_micros(now), kind, text),
    )


def get_task(conn: sqlite3.Connection, task_id: str) -> TaskRow:
    """Raises NotFound."""
    found = conn.execute(f"SELECT {_COLUMNS}, t.result {_FROM} WHERE t.task_id = ?", (task_id,)).fetchone()
    if found is None:
        raise NotFound
    return _row(found)


def list_tasks(conn: sqlite3.Connection) -> list[TaskRow]:
    """Newest first, without their results; at most TASKS_KEPT."""
    return [_row(found) for found in conn.execute(f"SELECT {_COLUMNS}, NULL {_FROM} ORDER BY t.key DESC")]


def notifications_of(conn: sqlite3.Connection, task_id: str) -> list[TaskNotification]:
    """In order. Raises NotFound."""
    get_task(conn, task_id)
    found = conn.execute(
        """SELECT n.position, n.created_at, n.kind, n.text FROM task_notifications n JOIN tasks t ON t.key = n.task
           WHERE t.task_id = ? ORDER BY n.position""",
        (task_id,),
    )
    return [TaskNotification(position, from_micros(stamp), kind, text) for position, stamp, kind, text in found]


def interrupt_unfinished(conn: sqlite3.Connection, now: datetime) -> list[str]:
    """Ends the Tasks of a dead process, which are never begun again, and drops those that are too old. Gives the ids of the
    ones it ended; a second call finds none."""
    ended = [task_id for (task_id,) in conn.execute(f"SELECT task_id FROM tasks WHERE state IN {_ACTIVE} ORDER BY key")]
    conn.execute(f"UPDATE tasks SET state = 'interrupted', finished_at = ? WHERE state IN {_ACTIVE}", (to_micros(now),))
    _keep_newest(conn, now, TASKS_KEPT)
    return ended


# Details


def _keep_newest(conn: sqlite3.Connection, now: datetime, kept: int) -> None:
    """Terminal Tasks go after TASK_DAYS, then the oldest of them until `kept` are left; active ones stay."""
    conn.execute(
        f"DELETE FROM tasks WHERE state NOT IN {_ACTIVE} AND finished_at < ?", (to_micros(now - timedelta(days=TASK_DAYS)),)
    )
    count: int = conn.execute("SELECT count(*) FROM tasks").fetchone()[0]
    conn.execute(
        f"DELETE FROM tasks WHERE key IN (SELECT key FROM tasks WHERE state NOT IN {_ACTIVE} ORDER BY finished_at, key LIMIT ?)",
        (max(0, count - kept),),
    )


def _move(row: TaskRow, target: TaskState) -> None:
    if target not in _MOVES.get(row.state, frozenset()):
        raise IllegalTaskChange(f"A Task cannot go from {row.state} to {target}.")


def _must_fit(text: str, bound: int) -> None:
    if len(text.encode()) > bound:
        raise IllegalTaskChange(f"A text of a Task is longer than {bound} bytes.")


def _row(found: tuple[str, str, str, TaskKind, TaskState, int, int | None, int | None, str | None, str | None]) -> TaskRow:
    task_id, run_id, conversation_id, kind, state, created, started, finished, code, result = found
    return TaskRow(
        task_id, run_id, conversation_id, kind, state, from_micros(created), from_optional(started), from_optional(finished), code, result
    )
