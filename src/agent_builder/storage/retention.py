"""What an Agent's database lets go by itself, so that nothing in it grows without a bound. Turns are never among it."""

import sqlite3
from typing import Literal

from agent_builder.protocol.limits import (
    CALIBRATION_SAMPLES,
    CALIBRATION_SCOPES,
    JOURNAL_RUNS_KEPT,
    SUMMARIES_PER_CONVERSATION,
)


def keep_newest_runs(conn: sqlite3.Connection) -> None:
    """The events of older Runs go; a Run that is not finished keeps its own, however many have begun since."""
    conn.execute(
        """DELETE FROM journal_runs WHERE key <= (SELECT key FROM journal_runs ORDER BY key DESC LIMIT 1 OFFSET ?)
           AND run_id NOT IN (SELECT run_id FROM turns WHERE state IN ('preparing', 'running'))""",
        (JOURNAL_RUNS_KEPT,),
    )


def keep_newest_observations(conn: sqlite3.Connection, scope: str) -> None:
    """The newest of one scope, and the scopes that were observed last."""
    conn.execute(
        """DELETE FROM observations WHERE scope = :scope AND key <= (
               SELECT key FROM observations WHERE scope = :scope ORDER BY key DESC LIMIT 1 OFFSET :kept)""",
        {"scope": scope, "kept": CALIBRATION_SAMPLES},
    )
    conn.execute(
        """DELETE FROM observations WHERE scope IN (
               SELECT scope FROM observations GROUP BY scope ORDER BY max(key) DESC LIMIT -1 OFFSET ?)""",
        (CALIBRATION_SCOPES,),
    )


def keep_newest_scopes(conn: sqlite3.Connection, table: Literal["rates", "overheads"]) -> None:
    """The scopes that were written last."""
    conn.execute(
        f"DELETE FROM {table} WHERE scope IN (SELECT scope FROM {table} ORDER BY created_at DESC, rowid DESC LIMIT -1 OFFSET ?)",
        (CALIBRATION_SCOPES,),
    )


def keep_newest_summaries(conn: sqlite3.Connection, conversation: int) -> None:
    conn.execute(
        """DELETE FROM summaries WHERE conversation = :key AND key <= (
               SELECT key FROM summaries WHERE conversation = :key ORDER BY key DESC LIMIT 1 OFFSET :kept)""",
        {"key": conversation, "kept": SUMMARIES_PER_CONVERSATION},
    )
