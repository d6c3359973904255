"""Recovery of one Agent's Conversations: nothing of a dead process is shown as running, and every Run has one end.

For each Turn left unfinished, in the transaction that ends it: what was still open in its journal is ended (an approval
nobody can decide any more is stale; a tool call without a result gets one that says so), then `run.interrupted` follows.
This also writes the end of a Run whose terminal could not be written while the disk was full. An interrupted Turn has no
bundle, so its dangling calls never reach a model; a completed Turn's bundle holds a result for every call by its type.
Tasks that were queued or running are interrupted in the same transaction and never begun again.
"""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from agent_builder.protocol.events import Event, RunIdentity, RunInterrupted, make_event
from agent_builder.protocol.limits import RECOVERY_SEQ_STEP, REPLAY_PAGE
from agent_builder.protocol.messages import Usage
from agent_builder.protocol.ports import Clock
from agent_builder.runs.open_ends import OpenEnds
from agent_builder.storage.database import Database
from agent_builder.storage.journal import append_events, last_seq, read_events
from agent_builder.storage.tasks import interrupt_unfinished
from agent_builder.storage.turns import TurnEnd, TurnRow, finish_turn, unfinished_turns

INTERRUPTED = "interrupted"


async def recover(database: Database, clock: Clock, agent_id: str) -> list[str]:
    """Before anything else uses the database. Gives the ids of the Runs it ended; a second call finds none."""
    now = clock.now()

    def transaction(conn: sqlite3.Connection) -> list[str]:
        turns = unfinished_turns(conn)
        for turn in turns:
            _interrupt(conn, turn, agent_id, now)
        interrupt_unfinished(conn, now)
        return [turn.run_id for turn in turns]

    return await database.run(transaction, terminal=True)


# Details


def _interrupt(conn: sqlite3.Connection, turn: TurnRow, agent_id: str, now: datetime) -> None:
    events = _journal(conn, turn.run_id)
    usage = _usage(events)
    identity = RunIdentity(
        agent_id=agent_id, conversation_id=turn.conversation_id, turn_id=turn.turn_id, run_id=turn.run_id
    )
    for payload in (*OpenEnds(events).closed(INTERRUPTED), RunInterrupted(usage=usage)):
        seq = last_seq(conn, turn.run_id) + RECOVERY_SEQ_STEP
        append_events(conn, [make_event(identity, seq, now, payload)])
    finish_turn(conn, TurnEnd(
        turn_id=turn.turn_id, state="interrupted", assistant_text=None, reason=None, error=None, usage=usage, bundle=None, now=now
    ))


def _journal(conn: sqlite3.Connection, run_id: str) -> list[Event]:
    events: list[Event] = []
    while page := read_events(conn, run_id, events[-1].seq if events else 0, REPLAY_PAGE):
        events += page
    return events


def _usage(events: Sequence[Event]) -> Usage:
    """What the finished model calls used; complete only if no call was cut short."""
    used = [Usage.model_validate(event.payload["usage"]) for event in events if event.type == "model.response.finished"]
    started = sum(event.type == "model.request.started" for event in events)
    return Usage(
        input=sum(usage.input for usage in used), output=sum(usage.output for usage in used),
        complete=started == len(used) and all(usage.complete for usage in used),
    )
