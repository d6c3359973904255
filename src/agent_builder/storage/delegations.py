"""Delegations: whom a Run has asked and what was said between the two, and the Conversations that were made for it.

On the asking side a delegation stands beside its Task, with at most two facts in its mailbox: the message and the answer. On the
other side a child Conversation says whose it is. Functions of a connection, each for use inside one transaction.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agent_builder.protocol.errors import Internal
from agent_builder.protocol.limits import DELEGATE_ANSWER_BYTES, DELEGATE_MESSAGE_BYTES, SUBAGENTS_SHOWN
from agent_builder.storage.conversations import ConversationRow, conversation_key, create_conversation
from agent_builder.storage.stamps import from_micros, from_optional, to_micros
from agent_builder.storage.tasks import NewTask, TaskEnd, TaskState, finish_task, insert_task, start_task

Direction = Literal["to_child", "to_parent"]


@dataclass(frozen=True, slots=True)
class Place:
    """A Conversation, by the Agent that it is of."""

    agent_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class NewDelegation:
    """`run_id`: the parent Run."""

    task_id: str
    run_id: str
    child: Place
    child_agent_name: str
    message: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Letter:
    """One fact of the mailbox."""

    direction: Direction
    text: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DelegationRow:
    """`child_agent_name`: as it was when it was asked. `child_run_id`: None where none has begun."""

    task_id: str
    run_id: str
    state: TaskState
    code: str | None
    child: Place
    child_agent_name: str
    child_run_id: str | None
    created_at: datetime
    finished_at: datetime | None
    letters: tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class ChildMark:
    """Whose child a Conversation is."""

    conversation_id: str
    parent: Place


def begin_delegation(conn: sqlite3.Connection, new: NewDelegation) -> None:
    """A running Task, and the message in its mailbox. Raises NotFound, RunLimit (Tasks of this Agent)."""
    _must_fit(new.message, DELEGATE_MESSAGE_BYTES)
    insert_task(conn, NewTask(new.task_id, new.run_id, "delegate", new.now))
    start_task(conn, new.task_id, new.now)
    conn.execute(
        """INSERT INTO delegations (task_id, run_id, conversation, child_agent_id, child_agent_name, child_conversation_id, created_at)
           SELECT ?, run_id, owner, ?, ?, ?, ? FROM turns WHERE run_id = ?""",
        (new.task_id, new.child.agent_id, new.child_agent_name, new.child.conversation_id, to_micros(new.now), new.run_id),
    )
    _put(conn, new.task_id, "to_child", new.message, new.now)


def note_child_run(conn: sqlite3.Connection, task_id: str, run_id: str) -> None:
    conn.execute("UPDATE delegations SET child_run_id = ? WHERE task_id = ?", (run_id, task_id))


def finish_delegation(conn: sqlite3.Connection, end: TaskEnd, answer: str | None) -> None:
    """The Task's terminal, and the answer of a completed one. Raises NotFound, IllegalTaskChange."""
    finish_task(conn, end)
    conn.execute(
        "UPDATE delegations SET state = ?, code = ?, finished_at = ? WHERE task_id = ?", (end.state, end.code, to_micros(end.now), end.task_id)
    )
    if answer is not None:
        _must_fit(answer, DELEGATE_ANSWER_BYTES)
        _put(conn, end.task_id, "to_parent", answer, end.now)


def delegations_of(conn: sqlite3.Connection, conversation_id: str) -> list[DelegationRow]:
    """Those of the Turns that this Conversation shows, inherited ones too: the newest, oldest first. Raises NotFound."""
    found = conn.execute(
        """SELECT d.key, d.task_id, d.run_id, coalesce(k.state, d.state, 'interrupted'), coalesce(k.code, d.code), d.child_agent_id,
               d.child_conversation_id, d.child_agent_name, d.child_run_id, d.created_at, coalesce(k.finished_at, d.finished_at)
           FROM conversation_turns l JOIN turns t ON t.key = l.turn JOIN delegations d ON d.run_id = t.run_id
           LEFT JOIN tasks k ON k.task_id = d.task_id WHERE l.conversation = ? ORDER BY d.key DESC LIMIT ?""",
        (conversation_key(conn, conversation_id), SUBAGENTS_SHOWN),
    ).fetchall()
    return [_row(conn, one) for one in reversed(found)]


def children_of(conn: sqlite3.Connection, conversation_id: str | None = None) -> list[Place]:
    """Every Conversation that was made for this one; without a name, for any of this Agent. Raises NotFound."""
    key = None if conversation_id is None else conversation_key(conn, conversation_id)
    found = conn.execute(
        "SELECT child_agent_id, child_conversation_id FROM delegations WHERE :key IS NULL OR conversation = :key ORDER BY key", {"key": key}
    )
    return [Place(agent_id, child) for agent_id, child in found]


def create_child_conversation(
    conn: sqlite3.Connection, conversation_id: str, title: str, now: datetime, parent: Place, task_id: str
) -> ConversationRow:
    """Raises ConversationLimit."""
    create_conversation(conn, conversation_id, title, now)
    key = conversation_key(conn, conversation_id)
    conn.execute(
        "INSERT INTO child_conversations (conversation, task_id, parent_agent_id, parent_conversation_id) VALUES (?, ?, ?, ?)",
        (key, task_id, parent.agent_id, parent.conversation_id),
    )
    return ConversationRow(conversation_id, title, now, now, 1, None, parent.agent_id)


def is_child(conn: sqlite3.Connection, conversation_id: str) -> bool:
    found = conn.execute(
        "SELECT 1 FROM child_conversations m JOIN conversations c ON c.key = m.conversation WHERE c.conversation_id = ?", (conversation_id,)
    )
    return found.fetchone() is not None


def child_marks(conn: sqlite3.Connection) -> list[ChildMark]:
    """Of every child Conversation of this Agent."""
    found = conn.execute(
        """SELECT c.conversation_id, m.parent_agent_id, m.parent_conversation_id
           FROM child_conversations m JOIN conversations c ON c.key = m.conversation ORDER BY m.conversation"""
    )
    return [ChildMark(conversation_id, Place(agent_id, parent)) for conversation_id, agent_id, parent in found]


# Details


def _put(conn: sqlite3.Connection, task_id: str, direction: Direction, text: str, now: datetime) -> None:
    conn.execute(
        "INSERT INTO mailbox (delegation, direction, text, created_at) SELECT key, ?, ?, ? FROM delegations WHERE task_id = ?",
        (direction, text, to_micros(now), task_id),
    )


def _must_fit(text: str, bound: int) -> None:
    if len(text.encode()) > bound:
        raise Internal(f"A text of a mailbox is longer than {bound} bytes.")


def _row(conn: sqlite3.Connection, found: Sequence[Any]) -> DelegationRow:
    key, task_id, run_id, state, code, agent_id, conversation_id, name, child_run_id, created, finished = found
    letters = conn.execute("SELECT direction, text, created_at FROM mailbox WHERE delegation = ? ORDER BY direction", (key,))
    return DelegationRow(
        task_id, run_id, state, code, Place(agent_id, conversation_id), name, child_run_id,
        from_micros(created), from_optional(finished),
        tuple(Letter(direction, text, from_micros(stamp)) for direction, text, stamp in letters),
    )
