import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.gateway.sse import HEARTBEAT, EventStream, Gone, chunk
from agent_builder.protocol.events import AssistantDelta, Control, Event, Payload, RunCancelled, RunStage
from agent_builder.protocol.limits import SSE_BLOCKED_S, SSE_HEARTBEAT_S
from agent_builder.protocol.messages import Usage
from agent_builder.runs.live import LiveRuns
from tests.gateway.asgi_client import AsgiClient, settle
from tests.gateway.events import identity, live_run, numbered
from tests.gateway.whatwg_sse import Sent, parse
from tests.support.clock import MovableClock

END = RunCancelled(usage=Usage(), elapsed_ms=5)


def as_sent(event: Event, prefix: str = "") -> Sent:
    return Sent(f"{prefix}{event.seq}", event.type, event.to_json())


async def stream(live: LiveRuns, run: str, agent: str, after: int = 0) -> AsgiClient:
    client, source = AsgiClient(), live.subscribe(agent, run, after)
    assert source is not None
    await EventStream([source], MovableClock())(client.scope(), client.receive, client.send)
    return client


ODD_TEXTS = [
    "\n\n\n", "    ", "if x:\r\n", "\r", "a\u2028b\u2029c\u0085d\x0b", "data: fake\n\nevent: run.completed\n\n", " : comment", "", "\ufeff",
    "👩‍👩‍👧", "\x00", "id: 99\n",
]


async def test_odd_texts_arrive_as_they_were_and_forge_nothing() -> None:
    live, run = LiveRuns(), identity()
    payloads: list[Payload] = [AssistantDelta(text=text) for text in ODD_TEXTS]
    live_run(live, run, *payloads, END)
    client = await stream(live, run.run_id, run.agent_id)
    sent = parse(client.received)
    assert [json.loads(one.data)["payload"].get("text") for one in sent] == [*ODD_TEXTS, None]
    assert [one.type for one in sent] == ["assistant.block.delta"] * len(ODD_TEXTS) + ["run.cancelled"]
    assert [one.id for one in sent] == [str(seq) for seq in range(1, len(ODD_TEXTS) + 2)]


@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_text_survives_the_framing(texts: list[str]) -> None:
    events = numbered(identity(), *[AssistantDelta(text=text) for text in texts])
    assert parse(chunk(events)) == [as_sent(event) for event in events]


async def test_what_is_ready_together_goes_out_as_one_chunk_and_the_stream_ends_with_the_terminal() -> None:
    live, run = LiveRuns(), identity()
    live_run(live, run, RunStage(stage="preparing"), AssistantDelta(text="a"), END)
    client = await stream(live, run.run_id, run.agent_id)
    assert len(client.chunks) == 1
    assert client.complete
    assert dict(client.headers) == {b"content-type": b"text/event-stream; charset=utf-8", b"x-accel-buffering": b"no"}


@pytest.mark.parametrize("after", range(5))
async def test_a_resumed_stream_begins_exactly_behind_the_seq(after: int) -> None:
    live, run = LiveRuns(), identity()
    live_run(live, run, RunStage(stage="preparing"), AssistantDelta(text="a"), AssistantDelta(text="b"), END)
    client = await stream(live, run.run_id, run.agent_id, after)
    assert [one.id for one in parse(client.received)] == [str(seq) for seq in range(after + 1, 5)]


async def test_events_arrive_while_the_run_goes_on() -> None:
    live, run, client = LiveRuns(), identity(), AsgiClient()
    record = live_run(live, run, RunStage(stage="preparing"))
    source = live.subscribe(run.agent_id, run.run_id, 0)
    assert source is not None
    serving = asyncio.create_task(EventStream([source], MovableClock())(client.scope(), client.receive, client.send))
    await client.until(chunks=1)
    record.append(numbered(run, AssistantDelta(text="x"), first=2))
    await client.until(chunks=2)
    record.append(numbered(run, END, first=3))
    await serving
    assert [one.id for one in parse(client.received)] == ["1", "2", "3"]
    assert record.subscribers() == 0


async def test_a_silent_stream_says_so_every_fifteen_seconds() -> None:
    live, run, client, clock = LiveRuns(), identity(), AsgiClient(), MovableClock()
    record = live_run(live, run, RunStage(stage="preparing"))
    source = live.subscribe(run.agent_id, run.run_id, 0)
    assert source is not None
    serving = asyncio.create_task(EventStream([source], clock)(client.scope(), client.receive, client.send))
    await client.until(chunks=1)
    for beats in (2, 3):
        await settle()
        clock.advance(SSE_HEARTBEAT_S + 1)
        await client.until(chunks=beats)
    assert client.chunks[1:] == [HEARTBEAT, HEARTBEAT]
    record.append(numbered(run, END, first=2))
    await serving
    assert [one.id for one in parse(client.received)] == ["1", "2"]


async def test_a_client_that_leaves_ends_its_stream_and_frees_its_place() -> None:
    live, run, client = LiveRuns(), identity(), AsgiClient()
    record = live_run(live, run, RunStage(stage="preparing"))
    source = live.subscribe(run.agent_id, run.run_id, 0)
    assert source is not None
    serving = asyncio.create_task(EventStream([source], MovableClock())(client.scope(), client.receive, client.send))
    await client.until(chunks=1)
    client.vanish()
    await serving
    assert record.subscribers() == 0
    assert not client.aborted


async def test_a_client_that_does_not_read_for_ten_seconds_is_dropped() -> None:
    live, run, client, clock = LiveRuns(), identity(), AsgiClient(), MovableClock()
    record = live_run(live, run, RunStage(stage="preparing"))
    source = live.subscribe(run.agent_id, run.run_id, 0)
    assert source is not None
    serving = asyncio.create_task(EventStream([source], clock)(client.scope(), client.receive, client.send))
    await client.until(chunks=1)
    client.block()
    record.append(numbered(run, AssistantDelta(text="x"), first=2))
    await settle()
    clock.advance(SSE_BLOCKED_S - 1)
    await settle()
    assert not serving.done()
    clock.advance(2)
    await serving
    assert client.aborted
    assert not client.complete
    assert record.subscribers() == 0


async def test_a_cancelled_stream_frees_its_place() -> None:
    live, run, client = LiveRuns(), identity(), AsgiClient()
    record = live_run(live, run, RunStage(stage="preparing"))
    source = live.subscribe(run.agent_id, run.run_id, 0)
    assert source is not None
    serving = asyncio.create_task(EventStream([source], MovableClock())(client.scope(), client.receive, client.send))
    await client.until(chunks=1)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert record.subscribers() == 0


async def test_a_stop_of_the_gateway_ends_streams_with_gone() -> None:
    live, run, client = LiveRuns(), identity(), AsgiClient()
    live_run(live, run, RunStage(stage="preparing"))
    source = live.subscribe(run.agent_id, run.run_id, 0)
    assert source is not None
    serving = asyncio.create_task(EventStream([source], MovableClock())(client.scope(), client.receive, client.send))
    await client.until(chunks=1)
    live.end_all()
    await serving
    last = parse(client.received)[-1]
    assert (last.id, last.type, json.loads(last.data)) == ("1", "control", {"kind": "gone", "run_id": run.run_id})
    assert client.complete


async def test_several_runs_share_a_connection_and_each_names_itself() -> None:
    live, client = LiveRuns(), AsgiClient()
    first, second = identity(), identity()
    live_run(live, first, RunStage(stage="preparing"), END)
    live_run(live, second, RunStage(stage="preparing"), AssistantDelta(text="a"), END)
    sources = [live.subscribe(run.agent_id, run.run_id, 1) for run in (first, second)]
    missing = identity().run_id
    opened = [source for source in sources if source is not None]
    await EventStream([*opened, Gone(missing)], MovableClock(), several=True)(client.scope(), client.receive, client.send)
    sent = parse(client.received)
    assert [one.id for one in sent if one.type != "control"] == [f"{first.run_id}:2", f"{second.run_id}:2", f"{second.run_id}:3"]
    assert [json.loads(one.data) for one in sent if one.type == "control"] == [{"kind": "gone", "run_id": missing}]


async def test_controls_have_no_id_and_leave_the_position_where_it_was() -> None:
    run = identity()
    events = numbered(run, AssistantDelta(text="a"))
    assert chunk([*events, Control(kind="storage_full")]).endswith(b'event: control\ndata: {"kind":"storage_full"}\n\n')
    assert [one.id for one in parse(chunk([*events, Control(kind="storage_full")]))] == ["1", "1"]


async def test_a_head_request_gets_the_headers_alone() -> None:
    live, run, client = LiveRuns(), identity(), AsgiClient()
    live_run(live, run, RunStage(stage="preparing"))
    source = live.subscribe(run.agent_id, run.run_id, 0)
    assert source is not None
    await EventStream([source], MovableClock())(client.scope("HEAD"), client.receive, client.send)
    assert (client.status, client.received, client.complete) == (200, b"", True)
