"""Rows of the registry database: which Agents there are, their generation, and how far a change of one has come."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agent_builder.protocol.errors import AgentLimit, Internal, NotFound
from agent_builder.protocol.ids import AgentId
from agent_builder.protocol.limits import AGENTS
from agent_builder.storage.stamps import from_micros, to_micros


class AgentState(StrEnum):
    CREATING = "creating"
    ACTIVE = "active"
    UPGRADING = "upgrading"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class AgentRow:
    """`target_generation`: only while upgrading, the one being built."""

    agent_id: AgentId
    name: str
    system: bool
    generation: int
    state: AgentState
    target_generation: int | None
    created_at: datetime


_MOVES: dict[AgentState, frozenset[AgentState]] = {
    AgentState.CREATING: frozenset({AgentState.ACTIVE, AgentState.DELETING}),
    AgentState.ACTIVE: frozenset({AgentState.UPGRADING, AgentState.DELETING}),
    AgentState.UPGRADING: frozenset({AgentState.ACTIVE}),
    AgentState.DELETING: frozenset(),
}

_COLUMNS = "agent_id, name, system, generation, state, target_generation, created_at"


class IllegalAgentMove(Internal):
    """An Agent was to go from one state to another that cannot follow it."""


def insert_agent(conn: sqlite3.Connection, agent_id: str, name: str, now: datetime, *, system: bool = False) -> AgentRow:
    """An Agent of generation 1 in state creating. Raises AgentLimit."""
    count: int = conn.execute("SELECT count(*) FROM agents").fetchone()[0]
    if count >= AGENTS:
        raise AgentLimit
    conn.execute(
        f"INSERT INTO agents ({_COLUMNS}) VALUES (?, ?, ?, 1, 'creating', NULL, ?)", (agent_id, name, system, to_micros(now))
    )
    return get_agent(conn, agent_id)


def list_agents(conn: sqlite3.Connection) -> list[AgentRow]:
    """The system Agent first, then the oldest."""
    return [_row(found) for found in conn.execute(f"SELECT {_COLUMNS} FROM agents ORDER BY system DESC, key")]


def get_agent(conn: sqlite3.Connection, agent_id: str) -> AgentRow:
    """Raises NotFound."""
    found = conn.execute(f"SELECT {_COLUMNS} FROM agents WHERE agent_id = ?", (agent_id,)).fetchone()
    if found is None:
        raise NotFound
    return _row(found)


def rename_agent(conn: sqlite3.Connection, agent_id: str, name: str) -> AgentRow:
    conn.execute("UPDATE agents SET name = ? WHERE agent_id = ?", (name, agent_id))
    return get_agent(conn, agent_id)


def move_agent(conn: sqlite3.Connection, agent_id: str, state: AgentState, *, switch: bool = False) -> AgentRow:
    """To `state`. Upgrading sets the next generation as target; from there to active, `switch` makes the target the
    generation and its absence gives the target up. Raises NotFound, IllegalAgentMove."""
    row = get_agent(conn, agent_id)
    if state not in _MOVES[row.state]:
        raise IllegalAgentMove(f"An Agent cannot go from {row.state} to {state}.")
    target = row.generation + 1 if state is AgentState.UPGRADING else None
    generation = row.target_generation if switch and row.target_generation else row.generation
    conn.execute(
        "UPDATE agents SET state = ?, generation = ?, target_generation = ? WHERE agent_id = ?",
        (state, generation, target, agent_id),
    )
    return get_agent(conn, agent_id)


def remove_agent(conn: sqlite3.Connection, agent_id: str) -> None:
    """The last step of a deletion or of a creation that failed. Raises NotFound, IllegalAgentMove."""
    row = get_agent(conn, agent_id)
    if row.state not in (AgentState.CREATING, AgentState.DELETING):
        raise IllegalAgentMove(f"An Agent that is {row.state} cannot be removed.")
    conn.execute("DELETE FROM agents WHERE agent_id = ?", (agent_id,))


def _row(found: tuple[str, str, int, int, str, int | None, int]) -> AgentRow:
    agent_id, name, system, generation, state, target, created = found
    return AgentRow(AgentId(agent_id), name, bool(system), generation, AgentState(state), target, from_micros(created))
