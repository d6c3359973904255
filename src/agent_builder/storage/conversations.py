"""Conversations: functions of a connection, each for use inside one transaction."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from agent_builder.protocol.errors import ConversationBusy, ConversationLimit, InvalidRequest, NotFound
from agent_builder.protocol.limits import CONVERSATIONS_PER_AGENT
from agent_builder.storage.stamps import from_micros, to_micros

UNTITLED = "New conversation"  # shown until the first message gives a title


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """`revision` counts renames from 1: page cursors are bound to it. `running_run_id`: the unfinished Turn's Run. `asked_by`: the Agent
    whose delegation made it, of a child Conversation."""

    conversation_id: str
    title: str
    created_at: datetime
    updated_at: datetime
    revision: int
    running_run_id: str | None
    asked_by: str | None = None


_SELECT = """
    SELECT c.conversation_id, c.title, c.created_at, c.updated_at, c.revision,
           (SELECT run_id FROM turns WHERE owner = c.key AND state IN ('preparing', 'running')),
           (SELECT parent_agent_id FROM child_conversations WHERE conversation = c.key)
    FROM conversations c"""


def create_conversation(conn: sqlite3.Connection, conversation_id: str, title: str | None, now: datetime) -> ConversationRow:
    """`title` None: the first message gives it. Raises ConversationLimit."""
    count: int = conn.execute("SELECT count(*) FROM conversations").fetchone()[0]
    if count >= CONVERSATIONS_PER_AGENT:
        raise ConversationLimit
    stamp = to_micros(now)
    conn.execute(
        "INSERT INTO conversations (conversation_id, title, created_at, updated_at, revision) VALUES (?, ?, ?, ?, 1)",
        (conversation_id, title, stamp, stamp),
    )
    return get_conversation(conn, conversation_id)


def list_conversations(conn: sqlite3.Connection) -> list[ConversationRow]:
    """Newest activity first."""
    return [_row(found) for found in conn.execute(f"{_SELECT} ORDER BY c.updated_at DESC, c.key DESC")]


def get_conversation(conn: sqlite3.Connection, conversation_id: str) -> ConversationRow:
    """Raises NotFound."""
    found = conn.execute(f"{_SELECT} WHERE c.conversation_id = ?", (conversation_id,)).fetchone()
    if found is None:
        raise NotFound
    return _row(found)


def rename_conversation(conn: sqlite3.Connection, conversation_id: str, title: str, now: datetime) -> ConversationRow:
    """Ends the cursors given out so far. Raises NotFound."""
    conn.execute(
        "UPDATE conversations SET title = ?, updated_at = ?, revision = revision + 1 WHERE conversation_id = ?",
        (title, to_micros(now), conversation_id),
    )
    return get_conversation(conn, conversation_id)


def delete_conversation(conn: sqlite3.Connection, conversation_id: str) -> list[str]:
    """The ids of the Runs that go with it. Their events and Tasks go; a Turn that a branch shows stays there, without its Run.
    Raises NotFound, ConversationBusy."""
    key = idle_key(conn, conversation_id)
    run_ids = [run_id for (run_id,) in conn.execute("SELECT run_id FROM turns WHERE owner = ? ORDER BY key", (key,))]
    conn.execute("DELETE FROM journal_runs WHERE run_id IN (SELECT run_id FROM turns WHERE owner = ?)", (key,))
    conn.execute(
        """DELETE FROM turns WHERE key IN (SELECT turn FROM conversation_turns WHERE conversation = :key) AND NOT EXISTS (
               SELECT 1 FROM conversation_turns other WHERE other.turn = turns.key AND other.conversation <> :key)""",
        {"key": key},
    )
    conn.execute("DELETE FROM conversations WHERE key = ?", (key,))
    return run_ids


def branch_conversation(
    conn: sqlite3.Connection, source_id: str, new_id: str, title: str, now: datetime
) -> ConversationRow:
    """A Conversation that shows the source's Turns up to the last completed one. Bodies are shared, not copied; its Turns
    need no parent to live. Raises NotFound, ConversationBusy, ConversationLimit, InvalidRequest (nothing completed)."""
    source = idle_key(conn, source_id)
    head = conn.execute(
        """SELECT l.position FROM conversation_turns l JOIN turns t ON t.key = l.turn
           WHERE l.conversation = ? AND t.state = 'completed' ORDER BY l.position DESC LIMIT 1""",
        (source,),
    ).fetchone()
    if head is None:
        raise InvalidRequest("There is no completed Turn to branch from.", reason="nothing_to_branch")
    row = create_conversation(conn, new_id, title, now)
    branch = conversation_key(conn, new_id)
    conn.execute(
        """INSERT INTO conversation_turns (conversation, position, turn)
           SELECT ?, position, turn FROM conversation_turns WHERE conversation = ? AND position <= ?""",
        (branch, source, head[0]),
    )
    conn.execute(
        """INSERT INTO summaries (conversation, source_digest, parent_digest, covered_turns, text, kind, model_id, created_at)
           SELECT ?, source_digest, parent_digest, covered_turns, text, kind, model_id, created_at
           FROM summaries WHERE conversation = ? ORDER BY key""",
        (branch, source),
    )
    return row


def conversation_key(conn: sqlite3.Connection, conversation_id: str) -> int:
    """The number under which other tables know it. Raises NotFound."""
    found = conn.execute("SELECT key FROM conversations WHERE conversation_id = ?", (conversation_id,)).fetchone()
    if found is None:
        raise NotFound
    return int(found[0])


def idle_key(conn: sqlite3.Connection, conversation_id: str) -> int:
    """Raises NotFound, and ConversationBusy while a Turn is unfinished."""
    key = conversation_key(conn, conversation_id)
    busy = conn.execute("SELECT 1 FROM turns WHERE owner = ? AND state IN ('preparing', 'running')", (key,)).fetchone()
    if busy is not None:
        raise ConversationBusy
    return key


def _row(found: tuple[str, str | None, int, int, int, str | None, str | None]) -> ConversationRow:
    conversation_id, title, created, updated, revision, running, asked_by = found
    return ConversationRow(conversation_id, title or UNTITLED, from_micros(created), from_micros(updated), revision, running, asked_by)
