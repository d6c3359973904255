"""Turns: begun, admitted and finished here and nowhere else. Functions of a connection, each for use inside one transaction."""

import sqlite3
from collections.abc import Sequence

from agent_builder.protocol.errors import ConversationLimit, IdempotencyMismatch, Internal, NotFound
from agent_builder.protocol.limits import TURNS_PER_CONVERSATION
from agent_builder.protocol.messages import CompletedTurnContext
from agent_builder.storage.boundaries import Boundary, put_boundary
from agent_builder.storage.conversations import conversation_key, idle_key
from agent_builder.storage.stamps import to_micros
from agent_builder.storage.turn_rows import (
    COLUMNS,
    NewTurn,
    TurnEnd,
    TurnError,
    TurnRow,
    error_json,
    read_turn,
    shown_attachments,
    usage_json,
)

__all__ = [
    "IllegalMove", "NewTurn", "TurnEnd", "TurnError", "TurnRow", "admit_turn", "begin_turn", "bundles", "find_by_request",
    "finish_turn", "get_turn_by_run", "move", "turn_page", "unfinished_turns",
]

_MOVES = {
    "preparing": frozenset({"running", "failed", "cancelled", "interrupted"}),
    "running": frozenset({"completed", "failed", "cancelled", "interrupted"}),
}


class IllegalMove(Internal):
    """A Turn was to go from one state to another that cannot follow it."""


def move(state: str, target: str) -> str:
    """The one transition table of a Turn; gives `target`. Raises IllegalMove; nothing follows a terminal state."""
    if target not in _MOVES.get(state, frozenset()):
        raise IllegalMove(f"A Turn cannot go from {state} to {target}.")
    return target


def find_by_request(
    conn: sqlite3.Connection, conversation_id: str, client_request_id: str, user_text: str
) -> TurnRow | None:
    """The Turn that this request made earlier. Raises IdempotencyMismatch when it sent another text."""
    row = _one(
        conn, "c.conversation_id = ? AND t.client_request_id = ?", (conversation_id, client_request_id)
    )
    if row is not None and row.user_text != user_text:
        raise IdempotencyMismatch
    return row


def begin_turn(conn: sqlite3.Connection, new: NewTurn) -> TurnRow:
    """A Turn in state preparing, and the Conversation's title if it has none. The row holds the attachments with their
    text; rows read later do not. The same client_request_id gives the earlier Turn: then `run_id` is not `new.run_id`.
    Raises NotFound, ConversationBusy, ConversationLimit (Turns), IdempotencyMismatch."""
    if new.client_request_id is not None:
        earlier = find_by_request(conn, new.conversation_id, new.client_request_id, new.user_text)
        if earlier is not None:
            return earlier
    key = idle_key(conn, new.conversation_id)
    position = _next_position(conn, key)
    stamp = to_micros(new.now)
    turn = conn.execute(
        """INSERT INTO turns (turn_id, run_id, operation_id, owner, client_request_id, state, model_id, compact, created_at,
               attachments, user_text) VALUES (?, ?, ?, ?, ?, 'preparing', ?, ?, ?, ?, ?)""",
        (new.turn_id, new.run_id, new.operation_id, key, new.client_request_id, new.model_id, new.compact, stamp,
         shown_attachments(new.attachments), new.user_text),
    ).lastrowid
    conn.execute("INSERT INTO conversation_turns (conversation, position, turn) VALUES (?, ?, ?)", (key, position, turn))
    conn.execute(
        "UPDATE conversations SET title = coalesce(title, ?), updated_at = ? WHERE key = ?", (new.title, stamp, key)
    )
    return TurnRow(
        turn_id=new.turn_id, run_id=new.run_id, operation_id=new.operation_id, conversation_id=new.conversation_id,
        state="preparing", user_text=new.user_text, attachments=new.attachments, assistant_text=None, reason=None,
        error=None, usage=None, model_id=new.model_id, created_at=new.now, finished_at=None,
        client_request_id=new.client_request_id, compact=new.compact,
    )


def admit_turn(conn: sqlite3.Connection, turn_id: str, boundary: Boundary) -> None:
    """preparing -> running, and the boundary of what the model will see. Raises NotFound, IllegalMove, BoundaryConflict."""
    state = _state(conn, turn_id)
    conn.execute("UPDATE turns SET state = ? WHERE turn_id = ?", (move(state, "running"), turn_id))
    put_boundary(conn, boundary)


def finish_turn(conn: sqlite3.Connection, end: TurnEnd) -> None:
    """The terminal state and, of a completed Turn, answer and bundle. Raises NotFound, IllegalMove."""
    state = move(_state(conn, end.turn_id), end.state)
    _must_fit(end)
    stamp = to_micros(end.now)
    key, owner = conn.execute("SELECT key, owner FROM turns WHERE turn_id = ?", (end.turn_id,)).fetchone()
    conn.execute(
        "UPDATE turns SET state = ?, assistant_text = ?, reason = ?, error = ?, usage = ?, finished_at = ? WHERE key = ?",
        (state, end.assistant_text, end.reason, error_json(end.error), usage_json(end.usage), stamp, key),
    )
    if end.bundle is not None:
        conn.execute("INSERT INTO bundles (turn, bundle) VALUES (?, ?)", (key, end.bundle.model_dump_json()))
    conn.execute("UPDATE conversations SET updated_at = ? WHERE key = ?", (stamp, owner))


def get_turn_by_run(conn: sqlite3.Connection, run_id: str) -> TurnRow | None:
    """None for a Run whose own Conversation was deleted, even while a branch shows its Turn."""
    return _one(conn, "t.run_id = ?", (run_id,))


def turn_page(
    conn: sqlite3.Connection, conversation_id: str, before: int | None, limit: int
) -> tuple[list[TurnRow], int | None]:
    """The newest `limit` Turns at positions below `before` (None: of all), ascending, and the position to continue below;
    None when nothing is older. Only these bodies are read. Raises NotFound."""
    key = conversation_key(conn, conversation_id)
    found = conn.execute(
        f"""SELECT {COLUMNS}, l.position FROM conversation_turns l JOIN turns t ON t.key = l.turn
            WHERE l.conversation = ? AND (? IS NULL OR l.position < ?) ORDER BY l.position DESC LIMIT ?""",
        (key, before, before, limit),
    ).fetchall()
    rows = [read_turn(row, conversation_id) for row in reversed(found)]
    oldest: int | None = found[-1][-1] if found else None
    return rows, oldest if oldest is not None and oldest > 1 else None


def bundles(conn: sqlite3.Connection, conversation_id: str, newest: int | None = None) -> list[CompletedTurnContext]:
    """What the completed Turns (inherited ones too) mean to a model, oldest first; at most the `newest` of them.
    Raises NotFound."""
    found = conn.execute(
        """SELECT b.bundle FROM conversation_turns l JOIN bundles b ON b.turn = l.turn
           WHERE l.conversation = ? ORDER BY l.position DESC LIMIT ?""",
        (conversation_key(conn, conversation_id), -1 if newest is None else newest),
    ).fetchall()
    return [CompletedTurnContext.model_validate_json(bundle) for (bundle,) in reversed(found)]


def last_reason(conn: sqlite3.Connection, conversation_id: str) -> str | None:
    """How the answer of the newest completed Turn (an inherited one too) ended. Raises NotFound."""
    found = conn.execute(
        """SELECT t.reason FROM conversation_turns l JOIN turns t ON t.key = l.turn
           WHERE l.conversation = ? AND t.state = 'completed' ORDER BY l.position DESC LIMIT 1""",
        (conversation_key(conn, conversation_id),),
    ).fetchone()
    return None if found is None else found[0]


def unfinished_turns(conn: sqlite3.Connection) -> list[TurnRow]:
    """Those preparing or running, oldest first."""
    return _many(conn, "t.state IN ('preparing', 'running')", ())


# Details


def _one(conn: sqlite3.Connection, condition: str, values: Sequence[str]) -> TurnRow | None:
    rows = _many(conn, condition, values)
    return rows[0] if rows else None


def _many(conn: sqlite3.Connection, condition: str, values: Sequence[str]) -> list[TurnRow]:
    found = conn.execute(
        f"SELECT {COLUMNS}, c.conversation_id FROM turns t JOIN conversations c ON c.key = t.owner WHERE {condition} ORDER BY t.key",
        values,
    )
    return [read_turn(row, row[-1]) for row in found]


def _state(conn: sqlite3.Connection, turn_id: str) -> str:
    found = conn.execute("SELECT state FROM turns WHERE turn_id = ?", (turn_id,)).fetchone()
    if found is None:
        raise NotFound
    return str(found[0])


def _next_position(conn: sqlite3.Connection, key: int) -> int:
    last: int | None = conn.execute("SELECT max(position) FROM conversation_turns WHERE conversation = ?", (key,)).fetchone()[0]
    if last is not None and last >= TURNS_PER_CONVERSATION:
        raise ConversationLimit(f"This Conversation has {TURNS_PER_CONVERSATION} Turns; start a new one.")
    return (last or 0) + 1


def _must_fit(end: TurnEnd) -> None:
    """Only a completed Turn has an answer and a bundle, and it always has both."""
    completed = end.state == "completed"
    if completed != (end.bundle is not None) or completed != (end.assistant_text is not None):
        raise IllegalMove(f"A Turn that is {end.state} has {'no ' if not completed else 'an '}answer and bundle.")
