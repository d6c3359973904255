"""Summaries of a Conversation's oldest Turns, found again by the digest of what they were made from."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from agent_builder.storage.conversations import conversation_key
from agent_builder.storage.retention import keep_newest_summaries
from agent_builder.storage.stamps import from_micros, to_micros


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """`covered_turns`: completed Turns from the beginning. `parent_digest`: source digest of the summary it grew from."""

    conversation_id: str
    source_digest: str
    parent_digest: str | None
    covered_turns: int
    text: str
    kind: str
    model_id: str
    now: datetime


_COLUMNS = "source_digest, parent_digest, covered_turns, text, kind, model_id, created_at"


def get_summary(conn: sqlite3.Connection, conversation_id: str, source_digest: str) -> SummaryRow | None:
    """Raises NotFound for an unknown Conversation."""
    return _summary(conn, conversation_id, "AND source_digest = ?", (source_digest,))


def latest_summary(conn: sqlite3.Connection, conversation_id: str) -> SummaryRow | None:
    """The one stored last. Raises NotFound for an unknown Conversation."""
    return _summary(conn, conversation_id, "", ())


def put_summary(conn: sqlite3.Connection, row: SummaryRow) -> None:
    """Replaces one of the same source. Raises NotFound for an unknown Conversation."""
    key = conversation_key(conn, row.conversation_id)
    conn.execute("DELETE FROM summaries WHERE conversation = ? AND source_digest = ?", (key, row.source_digest))
    conn.execute(
        f"INSERT INTO summaries (conversation, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (key, row.source_digest, row.parent_digest, row.covered_turns, row.text, row.kind, row.model_id, to_micros(row.now)),
    )
    keep_newest_summaries(conn, key)


def _summary(conn: sqlite3.Connection, conversation_id: str, condition: str, values: tuple[str, ...]) -> SummaryRow | None:
    found = conn.execute(
        f"SELECT {_COLUMNS} FROM summaries WHERE conversation = ? {condition} ORDER BY key DESC LIMIT 1",
        (conversation_key(conn, conversation_id), *values),
    ).fetchone()
    if found is None:
        return None
    source, parent, covered, text, kind, model_id, stamp = found
    return SummaryRow(conversation_id, source, parent, covered, text, kind, model_id, from_micros(stamp))
