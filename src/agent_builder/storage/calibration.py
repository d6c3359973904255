"""What providers reported for requests whose estimate is known, and how fast they evaluate prompts."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from agent_builder.storage.retention import keep_newest_observations, keep_newest_rates
from agent_builder.storage.stamps import from_micros, to_micros


@dataclass(frozen=True, slots=True)
class Observation:
    """Of one complete provider answer. Tokens: `estimated` before the call, `observed` of the whole prompt, `evaluated`
    anew. `eval_ms`: milliseconds for those. `scope`: what must be equal for two observations to be comparable.
    `exact`: the estimate was a count by the model's own tokenizer."""

    scope: str
    run_id: str
    request_digest: str
    estimated: int
    observed: int
    evaluated: int | None
    eval_ms: int | None
    exact: bool
    now: datetime


def add_observation(conn: sqlite3.Connection, seen: Observation) -> None:
    conn.execute(
        """INSERT INTO observations (scope, run_id, request_digest, estimated, observed, evaluated, eval_ms, exact, created_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (seen.scope, seen.run_id, seen.request_digest, seen.estimated, seen.observed, seen.evaluated, seen.eval_ms,
         seen.exact, to_micros(seen.now)),
    )
    keep_newest_observations(conn, seen.scope)


def observations(conn: sqlite3.Connection, scope: str, limit: int) -> list[Observation]:
    """Newest first."""
    found = conn.execute(
        """SELECT scope, run_id, request_digest, estimated, observed, evaluated, eval_ms, exact, created_at
           FROM observations WHERE scope = ? ORDER BY key DESC LIMIT ?""",
        (scope, limit),
    )
    return [
        Observation(scope, run_id, digest, estimated, observed, evaluated, eval_ms, bool(exact), from_micros(stamp))
        for scope, run_id, digest, estimated, observed, evaluated, eval_ms, exact, stamp in found
    ]


def rate_scope(model_id: str, counter: str) -> str:
    """A rate counts the tokens of one counter."""
    return f"{model_id} {counter}"


def put_rate(conn: sqlite3.Connection, scope: str, rate: float, now: datetime) -> None:
    """`rate`: prompt tokens per second; replaces the earlier one."""
    conn.execute(
        "INSERT INTO rates (scope, rate, created_at) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET rate = excluded.rate, created_at = excluded.created_at",
        (scope, rate, to_micros(now)),
    )
    keep_newest_rates(conn)


def get_rate(conn: sqlite3.Connection, scope: str) -> float | None:
    found = conn.execute("SELECT rate FROM rates WHERE scope = ?", (scope,)).fetchone()
    return None if found is None else float(found[0])
