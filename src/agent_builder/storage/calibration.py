"""What providers reported for requests that were counted before, what that taught about their chat templates, and how fast
they evaluate prompts."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from agent_builder.protocol.request import TemplateOverhead, Units
from agent_builder.storage.retention import keep_newest_observations, keep_newest_scopes
from agent_builder.storage.stamps import from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Observation:
    """Of one complete provider answer. Tokens: `text` and `spare` as counted before the call, `observed` of the whole prompt,
    `evaluated` anew. `units`: what the template added to. `eval_ms`: milliseconds for the evaluation. `scope`: what must be
    equal for two observations to be comparable. `exact`: counted by the model's own tokenizer."""

    scope: str
    run_id: str
    request_digest: str
    text: int
    spare: int
    units: Units
    observed: int
    evaluated: int | None
    eval_ms: int | None
    exact: bool
    now: datetime


def add_observation(conn: sqlite3.Connection, seen: Observation) -> None:
    conn.execute(
        """INSERT INTO observations (scope, run_id, request_digest, text, spare, messages, calls, results, observed, evaluated, eval_ms,
           exact, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (seen.scope, seen.run_id, seen.request_digest, seen.text, seen.spare, seen.units.messages, seen.units.calls, seen.units.results,
         seen.observed, seen.evaluated, seen.eval_ms, seen.exact, to_micros(seen.now)),
    )
    keep_newest_observations(conn, seen.scope)


def observations(conn: sqlite3.Connection, scope: str, limit: int) -> list[Observation]:
    """Newest first."""
    found = conn.execute(
        """SELECT run_id, request_digest, text, spare, messages, calls, results, observed, evaluated, eval_ms, exact, created_at
           FROM observations WHERE scope = ? ORDER BY key DESC LIMIT ?""",
        (scope, limit),
    )
    return [
        Observation(scope, run_id, digest, text, spare, Units(*units), observed, evaluated, eval_ms, bool(exact), from_micros(stamp))
        for run_id, digest, text, spare, *units, observed, evaluated, eval_ms, exact, stamp in found
    ]


def put_overhead(conn: sqlite3.Connection, scope: str, overhead: TemplateOverhead, now: datetime) -> None:
    """Replaces the earlier one."""
    conn.execute(
        "INSERT OR REPLACE INTO overheads (scope, request, message, call, result, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (scope, overhead.request, overhead.message, overhead.call, overhead.result, to_micros(now)),
    )
    keep_newest_scopes(conn, "overheads")


def get_overhead(conn: sqlite3.Connection, scope: str) -> TemplateOverhead | None:
    found = conn.execute("SELECT request, message, call, result FROM overheads WHERE scope = ?", (scope,)).fetchone()
    return None if found is None else TemplateOverhead(*found)


def rate_scope(model_id: str, counter: str) -> str:
    """A rate counts the tokens of one counter."""
    return f"{model_id} {counter}"


def put_rate(conn: sqlite3.Connection, scope: str, rate: float, now: datetime) -> None:
    """`rate`: prompt tokens per second; replaces the earlier one."""
    conn.execute(
        "INSERT INTO rates (scope, rate, created_at) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET rate = excluded.rate, created_at = excluded.created_at",
        (scope, rate, to_micros(now)),
    )
    keep_newest_scopes(conn, "rates")


def get_rate(conn: sqlite3.Connection, scope: str) -> float | None:
    found = conn.execute("SELECT rate FROM rates WHERE scope = ?", (scope,)).fetchone()
    return None if found is None else float(found[0])
