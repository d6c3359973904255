"""The only place that gives events their seq: strictly increasing from 1, one terminal, nothing after it.

Durable events are committed before anybody sees them. The lock prevents that an ephemeral event overtakes a durable one
whose commit is under way.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence

from agent_builder.protocol.errors import Internal, StorageFull
from agent_builder.protocol.events import Event, Payload, RunIdentity, RunStage, make_event
from agent_builder.protocol.limits import DURABLE_BYTES, EPHEMERAL_BETWEEN_DURABLE
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.runs.live import LiveRecord
from agent_builder.runs.open_ends import OpenEnds
from agent_builder.storage.database import Database
from agent_builder.storage.journal import append_events

Also = Callable[[sqlite3.Connection], None]


class Sequencer:
    """Emits the events of one Run."""

    def __init__(self, identity: RunIdentity, record: LiveRecord, database: Database, clock: Clock) -> None:
        self.durable_limit = DURABLE_BYTES
        self._identity = identity
        self._record = record
        self._database = database
        self._clock = clock
        self._lock = asyncio.Lock()
        self._seq = 0
        self._since_durable = 0
        self._durable_bytes = 0
        self._ended = False
        self.stage = "preparing"
        self.open = OpenEnds()

    @property
    def since_durable(self) -> int:
        """Ephemeral seqs since the last durable event."""
        return self._since_durable

    async def emit(self, *payloads: Payload) -> None:
        """The Emit port."""
        await self.commit(payloads)

    async def commit(self, payloads: Sequence[Payload], also: Also | None = None) -> None:
        """Gives `payloads` their places; the durable ones and `also` share one transaction. Raises StorageFull, with
        nothing changed. A Run that is cancelled meanwhile still tells what it has stored."""
        async with self._lock:
            if self._ended:
                raise Internal("an event after the terminal")
            events = self._number(payloads)
            durable = [event for event in events if event.durability == "durable"]
            cancelled = durable and (await to_the_end(self._store(durable, also)))[1]
            self._accept(events)
            if cancelled:
                raise asyncio.CancelledError

    async def commit_terminal(self, payloads: Sequence[Payload], also: Also, wait: Callable[[], Awaitable[None]]) -> None:
        """Like `commit` for the terminal boundary, but never gives up: while the disk is full it awaits `wait` and tries the
        same events again."""
        async with self._lock:
            events = self._number(payloads)
            while True:
                try:
                    await self._store(events, also)
                    break
                except StorageFull:
                    await wait()
            self._accept(events)

    def _number(self, payloads: Sequence[Payload]) -> list[Event]:
        now = self._clock.now()
        room = EPHEMERAL_BETWEEN_DURABLE - self._since_durable
        events: list[Event] = []
        for payload in payloads:
            if payload.durable:
                room = EPHEMERAL_BETWEEN_DURABLE
            elif room <= 0:
                continue  # a stage that cannot be shown is not worth a broken bound; deltas are paced below it
            else:
                room -= 1
            events.append(make_event(self._identity, self._seq + len(events) + 1, now, payload))
        return events

    async def _store(self, durable: list[Event], also: Also | None) -> None:
        size = sum(len(event.to_json()) for event in durable)
        terminal = any(event.terminal for event in durable)
        if self._durable_bytes + size > self.durable_limit and not terminal:
            raise Internal("the Run's journal is full")

        def transaction(conn: sqlite3.Connection) -> None:
            append_events(conn, durable)
            if also is not None:
                also(conn)

        await self._database.run(transaction, terminal=terminal)
        self._durable_bytes += size

    def _accept(self, events: list[Event]) -> None:
        if not events:
            return
        self._seq = events[-1].seq
        for event in events:
            self._since_durable = 0 if event.durability == "durable" else self._since_durable + 1
        self._ended = any(event.terminal for event in events)
        for event in events:
            if event.durability == "durable":
                self.open.note(event)
            if event.type == RunStage.type:
                self.stage = str(event.payload["stage"])
        self._record.append(events)
