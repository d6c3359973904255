"""Context boundaries: digests that say which view of a Conversation a model was given. No prompt text.

They form a chain per Conversation: each names the one before it, and is stored only while that one is still the head, so
a crash or a second writer can neither lose nor double a step.
"""

import json
import sqlite3
from dataclasses import dataclass

from agent_builder.protocol.errors import Internal
from agent_builder.protocol.limits import BOUNDARIES_PER_CONVERSATION
from agent_builder.storage.conversations import conversation_key


class BoundaryConflict(Internal):
    """The boundary that was to follow another one found a different head."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """`fields`: names and digests or counts of what the view binds. `previous_digest` None: the first one."""

    conversation_id: str
    turn_id: str
    digest: str
    previous_digest: str | None
    fields: dict[str, str]


def put_boundary(conn: sqlite3.Connection, boundary: Boundary) -> None:
    """Appends, or replaces the head when it is of the same Turn. Raises NotFound, BoundaryConflict."""
    key = conversation_key(conn, boundary.conversation_id)
    head = conn.execute(
        "SELECT key, turn_id, digest, previous_digest FROM boundaries WHERE conversation = ? ORDER BY key DESC LIMIT 1", (key,)
    ).fetchone()
    if boundary.previous_digest != (head[2] if head else None):
        raise BoundaryConflict
    previous = boundary.previous_digest
    if head is not None and head[1] == boundary.turn_id:
        conn.execute("DELETE FROM boundaries WHERE key = ?", (head[0],))
        previous = head[3]
    conn.execute(
        "INSERT INTO boundaries (conversation, turn_id, digest, previous_digest, fields) VALUES (?, ?, ?, ?, ?)",
        (key, boundary.turn_id, boundary.digest, previous, json.dumps(boundary.fields, sort_keys=True)),
    )
    conn.execute(
        """DELETE FROM boundaries WHERE conversation = :key AND key <= (
               SELECT key FROM boundaries WHERE conversation = :key ORDER BY key DESC LIMIT 1 OFFSET :kept)""",
        {"key": key, "kept": BOUNDARIES_PER_CONVERSATION},
    )


def head_boundary(conn: sqlite3.Connection, conversation_id: str) -> Boundary | None:
    """The newest one. Raises NotFound."""
    return _boundary(conn, conversation_id, "ORDER BY key DESC LIMIT 1", ())


def turn_boundary(conn: sqlite3.Connection, conversation_id: str, turn_id: str) -> Boundary | None:
    """The one of a Turn, while it is kept. Raises NotFound."""
    return _boundary(conn, conversation_id, "AND turn_id = ? ORDER BY key DESC LIMIT 1", (turn_id,))


def _boundary(conn: sqlite3.Connection, conversation_id: str, rest: str, values: tuple[str, ...]) -> Boundary | None:
    found = conn.execute(
        f"SELECT turn_id, digest, previous_digest, fields FROM boundaries WHERE conversation = ? {rest}",
        (conversation_key(conn, conversation_id), *values),
    ).fetchone()
    if found is None:
        return None
    turn_id, digest, previous, fields = found
    return Boundary(conversation_id, turn_id, digest, previous, json.loads(fields))
