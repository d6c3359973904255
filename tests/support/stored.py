"""Stored things for tests: an Agent's database and what goes into it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

from agent_builder.protocol.events import Event, Payload, RunIdentity, make_event
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import DATABASE_BYTES
from agent_builder.protocol.messages import CompletedTurnContext, Usage
from agent_builder.storage.boundaries import Boundary, head_boundary
from agent_builder.storage.conversations import create_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.migrations import AGENT_MIGRATIONS
from agent_builder.storage.turn_rows import NewTurn, TurnEnd, TurnError, TurnRow
from agent_builder.storage.turns import admit_turn, begin_turn, finish_turn, get_turn_by_run

NOW = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
AGENT = "00000000-0000-4000-8000-00000000000a"
USAGE = Usage(input=120, output=30)


class FixedClock:
    """`now` stands still. Nothing here sleeps."""

    def now(self) -> datetime:
        return NOW


async def open_state(directory: Path, max_bytes: int = DATABASE_BYTES) -> Database:
    return await Database.open(directory / "state.sqlite", AGENT_MIGRATIONS, max_bytes=max_bytes)


def conversation(conn: Connection, title: str | None = None, minute: int = 0) -> str:
    made = create_conversation(conn, new_id(), title, NOW + timedelta(minutes=minute))
    return made.conversation_id


def new_turn(conversation_id: str, text: str = "question", **changes: object) -> NewTurn:
    plain = NewTurn(
        turn_id=new_id(), run_id=new_id(), operation_id=new_id(), conversation_id=conversation_id, user_text=text,
        attachments=(), model_id="model", compact=False, client_request_id=None, now=NOW, title="From the message",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def begun(conn: Connection, conversation_id: str, text: str = "question", **changes: object) -> TurnRow:
    return begin_turn(conn, new_turn(conversation_id, text, **changes))


def admitted(conn: Connection, conversation_id: str, text: str = "question", **changes: object) -> TurnRow:
    turn = begun(conn, conversation_id, text, **changes)
    head = head_boundary(conn, conversation_id)
    admit_turn(conn, turn.turn_id, Boundary(conversation_id, turn.turn_id, new_id(), head.digest if head else None, {"model": "m"}))
    return turn


def completed(conn: Connection, conversation_id: str, text: str = "question", answer: str = "answer", **changes: object) -> TurnRow:
    turn = admitted(conn, conversation_id, text, **changes)
    bundle = CompletedTurnContext(turn_id=turn.turn_id, user_text=text, answer=answer)
    finish_turn(conn, TurnEnd(turn.turn_id, "completed", answer, "stop", None, USAGE, bundle, NOW + timedelta(seconds=9)))
    found = get_turn_by_run(conn, turn.run_id)
    assert found is not None
    return found


def ended(conn: Connection, conversation_id: str, state: str, text: str = "question") -> TurnRow:
    """A Turn that failed, was cancelled or interrupted."""
    turn = admitted(conn, conversation_id, text)
    error = TurnError("model_transport", "answering", 1500, "The connection to the model broke.") if state == "failed" else None
    finish_turn(conn, TurnEnd(turn.turn_id, state, None, None, error, USAGE, None, NOW))
    found = get_turn_by_run(conn, turn.run_id)
    assert found is not None
    return found


def event(turn: TurnRow, seq: int, payload: Payload) -> Event:
    identity = RunIdentity(agent_id=AGENT, conversation_id=turn.conversation_id, turn_id=turn.turn_id, run_id=turn.run_id)
    return make_event(identity, seq, NOW, payload)
