"""A client that loses its connection again and again sees each event once, in order, and every durable one."""

import asyncio
import tempfile
from pathlib import Path
from sqlite3 import Connection

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_builder.gateway.replay import open_replay
from agent_builder.gateway.sse import EventStream, Source
from agent_builder.protocol.events import AssistantDelta, Event, ModelRequestStarted, Payload, RunCancelled, RunIdentity
from agent_builder.protocol.messages import Usage
from agent_builder.runs.live import LiveRuns
from agent_builder.storage.database import Database
from agent_builder.storage.journal import append_events
from tests.gateway.asgi_client import AsgiClient, settle
from tests.gateway.events import numbered
from tests.gateway.whatwg_sse import parse
from tests.support import stored
from tests.support.clock import MovableClock

STEPS = st.lists(st.sampled_from(["delta", "durable", "cut"]), min_size=1, max_size=60)


class Scene:
    """One Run that goes on whether or not its one client is connected."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.live = LiveRuns()
        self.events: list[Event] = []
        self.seen: list[tuple[int, str]] = []

    async def begin(self) -> None:
        def make(conn: Connection) -> RunIdentity:
            turn = stored.admitted(conn, stored.conversation(conn))
            return RunIdentity(agent_id=stored.AGENT, conversation_id=turn.conversation_id, turn_id=turn.turn_id, run_id=turn.run_id)

        self.run = await self.database.run(make)
        self.record = self.live.open(self.run)

    async def happen(self, payload: Payload) -> None:
        (event,) = numbered(self.run, payload, first=len(self.events) + 1)
        if event.durability == "durable":
            await self.database.run(lambda conn: append_events(conn, [event]))
        self.events.append(event)
        self.record.append([event])

    async def connect(self) -> "tuple[AsgiClient, asyncio.Task[None]]":
        after = self.seen[-1][0] if self.seen else 0
        source: Source | None = self.live.subscribe(self.run.agent_id, self.run.run_id, after)
        if source is None:
            source = await open_replay(self.database, self.run.run_id, after)
        client = AsgiClient()
        return client, asyncio.create_task(EventStream([source], MovableClock())(client.scope(), client.receive, client.send))

    def note(self, client: AsgiClient) -> None:
        self.seen += [(int(one.id), one.data) for one in parse(client.received) if one.type != "control"]

    async def cut(self, client: AsgiClient, serving: "asyncio.Task[None]") -> None:
        await settle()
        client.vanish()
        await serving
        self.note(client)


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS)
async def test_each_event_is_seen_once_and_in_order_while_the_run_is_in_memory(first: list[str], second: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = await stored.open_state(Path(folder))
        scene = Scene(database)
        await scene.begin()
        client, serving = await scene.connect()
        for step in (*first, *second):
            if step == "cut":
                await scene.cut(client, serving)
                client, serving = await scene.connect()
            else:
                await scene.happen(AssistantDelta(text="x") if step == "delta" else ModelRequestStarted(call=1, round=1, attempt=1))
        await scene.happen(RunCancelled(usage=Usage(), elapsed_ms=1))
        await serving
        scene.note(client)
        await database.close()
    assert scene.seen == [(event.seq, event.to_json()) for event in scene.events]


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS)
async def test_after_the_run_has_left_memory_exactly_the_remaining_durable_events_follow(first: list[str], second: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = await stored.open_state(Path(folder))
        scene = Scene(database)
        await scene.begin()
        client, serving = await scene.connect()
        for step in first:
            if step != "cut":
                await scene.happen(AssistantDelta(text="x") if step == "delta" else ModelRequestStarted(call=1, round=1, attempt=1))
        await scene.cut(client, serving)
        before = len(scene.seen)
        for step in second:
            if step != "cut":
                await scene.happen(AssistantDelta(text="x") if step == "delta" else ModelRequestStarted(call=1, round=1, attempt=1))
        await scene.happen(RunCancelled(usage=Usage(), elapsed_ms=1))
        scene.live.forget([scene.run.run_id])
        client, serving = await scene.connect()
        await serving
        scene.note(client)
        await database.close()
    last = scene.seen[before - 1][0] if before else 0
    remaining = [event for event in scene.events if event.durability == "durable" and event.seq > last]
    assert scene.seen[before:] == [(event.seq, event.to_json()) for event in remaining]
