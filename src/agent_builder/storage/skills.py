"""Rows of the Skills that are installed in an Agent: several versions of a name, at most one of them active."""

import json
import sqlite3
from dataclasses import dataclass
from datetime import datetime

from agent_builder.protocol.errors import NotFound
from agent_builder.storage.stamps import from_micros, to_micros


@dataclass(frozen=True, slots=True)
class SkillRow:
    """`digest`: of all its files, and the name of its folder. `bytes` and `entries`: of its files. `scripts`: names of what it can run."""

    skill_id: str
    name: str
    version: str
    description: str
    digest: str
    bytes: int
    entries: int
    scripts: tuple[str, ...]
    active: bool
    created_at: datetime


_COLUMNS = "skill_id, name, version, description, digest, bytes, entries, scripts, active, created_at"


def list_skills(conn: sqlite3.Connection) -> list[SkillRow]:
    """By name, the newest version first."""
    return [_row(found) for found in conn.execute(f"SELECT {_COLUMNS} FROM skills ORDER BY name, key DESC")]


def insert_skill(conn: sqlite3.Connection, row: SkillRow) -> None:
    """An active one takes the place of the version that was active."""
    if row.active:
        conn.execute("UPDATE skills SET active = 0 WHERE name = ?", (row.name,))
    conn.execute(
        f"INSERT INTO skills ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row.skill_id, row.name, row.version, row.description, row.digest, row.bytes, row.entries, json.dumps(row.scripts), row.active,
         to_micros(row.created_at)),
    )


def set_skill_active(conn: sqlite3.Connection, skill_id: str, active: bool) -> None:
    """Other versions of the same name are not active then. Raises NotFound."""
    name = _name(conn, skill_id)
    if active:
        conn.execute("UPDATE skills SET active = 0 WHERE name = ?", (name,))
    conn.execute("UPDATE skills SET active = ? WHERE skill_id = ?", (active, skill_id))


def delete_skill(conn: sqlite3.Connection, skill_id: str) -> None:
    """Raises NotFound."""
    _name(conn, skill_id)
    conn.execute("DELETE FROM skills WHERE skill_id = ?", (skill_id,))


def _name(conn: sqlite3.Connection, skill_id: str) -> str:
    found = conn.execute("SELECT name FROM skills WHERE skill_id = ?", (skill_id,)).fetchone()
    if found is None:
        raise NotFound
    return str(found[0])


def _row(found: tuple[str, str, str, str, str, int, int, str, int, int]) -> SkillRow:
    skill_id, name, version, description, digest, size, entries, scripts, active, created = found
    return SkillRow(
        skill_id, name, version, description, digest, size, entries, tuple(json.loads(scripts)), bool(active), from_micros(created)
    )
