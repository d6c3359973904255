"""The durable events of Runs, as they were sent. Sequence numbers only grow, and nothing follows a terminal event."""

import sqlite3
from collections.abc import Sequence

from agent_builder.protocol.errors import Internal
from agent_builder.protocol.events import TERMINAL_TYPES, Event
from agent_builder.storage.retention import keep_newest_runs


class JournalOrder(Internal):
    """An event that would stand at or before the last one, or behind a terminal."""


def append_events(conn: sqlite3.Connection, events: Sequence[Event]) -> None:
    """Durable events, of one Run or several, in order. A Run's first one makes room among the Runs kept.
    Raises JournalOrder."""
    for event in events:
        run = _run_key(conn, event.run_id)
        _must_follow(conn, run, event)
        conn.execute("INSERT INTO events (run, seq, type, event) VALUES (?, ?, ?, ?)", (run, event.seq, event.type, event.to_json()))


def read_events(
    conn: sqlite3.Connection, run_id: str, after_seq: int, limit: int, types: Sequence[str] | None = None
) -> list[Event]:
    """At most `limit` events after `after_seq`, ascending; only those of `types` if given. Empty for an unknown Run."""
    marks = "" if types is None else f"AND e.type IN ({', '.join('?' * len(types))})"
    found = conn.execute(
        f"""SELECT e.event FROM events e JOIN journal_runs r ON r.key = e.run
            WHERE r.run_id = ? AND e.seq > ? {marks} ORDER BY e.seq LIMIT ?""",
        (run_id, after_seq, *(types or ()), limit),
    )
    return [Event.model_validate_json(text) for (text,) in found]


def last_seq(conn: sqlite3.Connection, run_id: str) -> int:
    """Of the newest durable event; 0 where there is none."""
    found = conn.execute(
        "SELECT max(e.seq) FROM events e JOIN journal_runs r ON r.key = e.run WHERE r.run_id = ?", (run_id,)
    ).fetchone()
    return found[0] or 0


def _run_key(conn: sqlite3.Connection, run_id: str) -> int:
    found = conn.execute("SELECT key FROM journal_runs WHERE run_id = ?", (run_id,)).fetchone()
    if found is not None:
        return int(found[0])
    key = conn.execute("INSERT INTO journal_runs (run_id) VALUES (?)", (run_id,)).lastrowid
    assert key is not None
    keep_newest_runs(conn)
    return key


def _must_follow(conn: sqlite3.Connection, run: int, event: Event) -> None:
    last = conn.execute("SELECT seq, type FROM events WHERE run = ? ORDER BY seq DESC LIMIT 1", (run,)).fetchone()
    if last is not None and (event.seq <= last[0] or last[1] in TERMINAL_TYPES):
        raise JournalOrder(f"A {event.type} cannot stand behind {last[1]}.")
