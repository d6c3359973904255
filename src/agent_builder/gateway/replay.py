"""The durable replay of a Run that is no longer in memory, as one more source of a stream.

It names what is missing (`gap`: deltas and stages were never stored), shows the Turn as it is stored (`snapshot`), gives the
durable events beyond the client's position in order, and ends.
"""

import sqlite3
from collections.abc import Sequence
from itertools import pairwise

from agent_builder.gateway.views import turn_answer
from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.events import Control, Event
from agent_builder.protocol.limits import REPLAY_PAGE
from agent_builder.storage.database import Database
from agent_builder.storage.journal import last_seq, read_events
from agent_builder.storage.turns import TurnRow, get_turn_by_run


class JournalReplay:
    """Everything was read when it was made; nothing of it waits."""

    def __init__(self, turn: TurnRow, events: Sequence[Event], gap: Control | None) -> None:
        self.run_id = turn.run_id
        opening: list[Event | Control] = [*([gap] if gap else []), _snapshot(turn)]
        self._batches: list[list[Event | Control]] = [[*opening, *events[:REPLAY_PAGE]]]
        self._batches += [list(events[at : at + REPLAY_PAGE]) for at in range(REPLAY_PAGE, len(events), REPLAY_PAGE)]
        self._batches.reverse()

    async def batch(self) -> list[Event | Control]:
        return self._batches.pop() if self._batches else []

    def close(self) -> None:
        self._batches.clear()


async def open_replay(database: Database, run_id: str, after_seq: int) -> JournalReplay:
    """Raises NotFound for a Run without a Turn: unknown, or deleted with its Conversation."""

    def read(conn: sqlite3.Connection) -> JournalReplay:
        turn = get_turn_by_run(conn, run_id)
        if turn is None:
            raise NotFound
        events = _all_events(conn, run_id, after_seq)
        return JournalReplay(turn, events, _gap(run_id, [event.seq for event in events], after_seq, last_seq(conn, run_id)))

    return await database.read(read)


async def run_exists(database: Database, run_id: str) -> bool:
    return await database.read(lambda conn: get_turn_by_run(conn, run_id)) is not None


async def read_page(
    database: Database, run_id: str, after_seq: int, limit: int, types: Sequence[str] | None
) -> tuple[list[Event], bool]:
    """At most `limit` durable events, only those of `types` if given, and whether there are more. Raises NotFound."""

    def read(conn: sqlite3.Connection) -> tuple[list[Event], bool]:
        if get_turn_by_run(conn, run_id) is None:
            raise NotFound
        events = read_events(conn, run_id, after_seq, limit + 1, types)
        return events[:limit], len(events) > limit

    return await database.read(read)


def _all_events(conn: sqlite3.Connection, run_id: str, after_seq: int) -> list[Event]:
    """A Run's durable bytes are bounded, so all of them fit at once."""
    events: list[Event] = []
    while True:
        page = read_events(conn, run_id, events[-1].seq if events else after_seq, REPLAY_PAGE)
        events += page
        if len(page) < REPLAY_PAGE:
            return events


def _gap(run_id: str, seqs: Sequence[int], after_seq: int, last: int) -> Control | None:
    """From the first to the last seq beyond the client's position that was not stored. A Run whose events are no longer kept
    (`last` 0) has no known end."""
    if last == 0:
        return Control(kind="gap", from_seq=after_seq + 1, run_id=run_id)
    holes = [(low + 1, high - 1) for low, high in pairwise((after_seq, *seqs)) if high > low + 1]
    return Control(kind="gap", from_seq=holes[0][0], to_seq=holes[-1][1], run_id=run_id) if holes else None


def _snapshot(turn: TurnRow) -> Control:
    shown = turn_answer(turn).model_dump(mode="json", exclude_none=True)
    return Control(kind="snapshot", turn=shown, run_id=turn.run_id)
