"""A client that loses its connection again and again, in front of a real Gateway: nothing is lost, repeated or reordered."""

import asyncio
import random
from pathlib import Path

import pytest

from agent_builder.protocol.limits import (
    LIVE_EVENTS,
    PAGE_FRAMES_AT_ONCE,
    RECOVERY_SEQ_STEP,
    SSE_BLOCKED_S,
    SSE_HEARTBEAT_S,
    STOP_S,
    SUBSCRIBERS_PER_RUN,
)
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, frame, frames, gated, text, thinking
from tests.support.gateway import SYSTEM_AGENT, TERMINALS, Gateway, sse
from tests.support.raw_stream import View, follow, journal, never_reading, rest_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
PROFILE = "streams = 4\n[models.timeouts]\nidle_s = 100\n[models.budgets]\nmodel_calls = 31\ntool_calls = 30\n"
WORDS = "".join(f"word {number:03d} " for number in range(200))


def long_answer(gap: float = 0.005) -> object:
    return text(WORDS, size=9, gap=gap)


async def cut_at_random(gateway: Gateway, view: View, chance: random.Random) -> None:
    """Until the terminal; every connection is cut after a few events, some at once."""
    while not view.ended:
        await follow(gateway, view, chance.choice((0, 1, 1, 2, 3, 5, 8)))


async def whole(gateway: Gateway, view: View) -> None:
    """The view has each event once and in order, every durable one, and one terminal at its end."""
    assert view.seqs == sorted(set(view.seqs))
    assert view.durable == await journal(gateway, view.run_id)
    assert [event["type"] for event in view.events if event["type"] in TERMINALS] == [view.events[-1]["type"]]


@pytest.mark.parametrize("seed", range(25))
async def test_a_short_run_is_seen_whole_through_any_cuts(shared: Gateway, shared_fake: FakeOllama, seed: int) -> None:
    chance = random.Random(seed)
    answers = [text("short"), thinking("hm", "thought over"), text("ab cd ef " * 9, size=4), call("file_read_text", path="none.txt")]
    step = answers[seed % len(answers)]
    shared_fake.script(step, *([text("done")] if step is answers[-1] else []))
    accepted = await shared.submit(await shared.new_conversation(), "hello")
    view = View(accepted["run_id"])
    await cut_at_random(shared, view, chance)
    await whole(shared, view)
    assert view.seqs == list(range(1, len(view.seqs) + 1))
    assert view.controls == []
    assert view.text == view.events[-2]["payload"]["text"]


async def test_a_long_run_is_seen_whole_while_live_when_ended_and_after_a_restart(shared: Gateway, shared_fake: FakeOllama) -> None:
    chance = random.Random(200)
    shared_fake.script(long_answer())
    accepted = await shared.submit(await shared.new_conversation(), "hello")
    live = View(accepted["run_id"])
    await cut_at_random(shared, live, chance)
    await whole(shared, live)
    assert live.text == WORDS
    assert live.connections > 10
    ended = View(live.run_id)
    await cut_at_random(shared, ended, chance)
    assert ended.events == live.events
    await shared.restart()
    for _ in range(60):
        await resumed_from(shared, live, chance.randrange(live.position + 2))


async def resumed_from(gateway: Gateway, seen: View, position: int) -> None:
    """A client that had seen everything up to `position` gets exactly the durable rest, with what is missing named."""
    again = View(seen.run_id, [event for event in seen.events if event["seq"] <= position], connections=1)
    known, start = len(again.events), again.position
    await follow(gateway, again)
    rest = [event for event in seen.durable if event["seq"] > start]
    assert again.events[known:] == rest
    missing = [seq for seq in seen.seqs if seq > start and seq not in {event["seq"] for event in rest}]
    *gaps, snapshot = again.controls
    assert [(gap["kind"], gap["from_seq"], gap["to_seq"]) for gap in gaps] == ([("gap", missing[0], missing[-1])] if missing else [])
    assert (snapshot["kind"], snapshot["turn"]["assistant_text"]) == ("snapshot", WORDS)


async def test_a_cut_by_the_death_of_the_gateway_ends_in_interrupted_behind_all_that_was_seen(shared: Gateway, shared_fake: FakeOllama) -> None:
    gate = Gate()
    shared_fake.script(gated(gate, text("never"), before=begun(WORDS, size=9)))
    accepted = await shared.submit(await shared.new_conversation(), "hello")
    view = View(accepted["run_id"])
    while view.text != WORDS:
        await follow(shared, view, 1)
    await shared.kill()
    await shared.start()
    await shared.login()
    await follow(shared, view)
    gate.open()
    await whole(shared, view)
    assert view.events[-1]["type"] == "run.interrupted"
    assert view.events[-1]["seq"] > RECOVERY_SEQ_STEP
    assert [control["kind"] for control in view.controls] == ["gap", "snapshot"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_resume_begins_exactly_behind_the_named_event(shared: Gateway, shared_fake: FakeOllama, restarted: bool) -> None:
    shared_fake.script(long_answer(gap=0))
    run = await shared.run(await shared.new_conversation(), "hello")
    final = run.terminal["seq"]
    if restarted:
        await shared.restart()
    for after in (0, 7, final - 1, final, final + 1):
        got = [event async for event in shared.events(run.run_id, after)]
        wanted = [event for event in run.events if event["seq"] > after]
        assert got == [event for event in wanted if not restarted or event["durability"] == "durable"], after


async def test_a_position_inside_a_merged_delta_is_told_to_read_again(shared: Gateway, shared_fake: FakeOllama) -> None:
    """A Run of more events than memory holds: its oldest deltas are merged, and a client that resumes inside one reads anew."""
    steps = 2 * LIVE_EVENTS // PAGE_FRAMES_AT_ONCE - 2
    looks = [{"function": {"name": "file_read_text", "arguments": {"path": f"{number}.txt"}}} for number in range(steps)]
    shared_fake.script(*[frames(*[frame(content=f"{number}. ")] * PAGE_FRAMES_AT_ONCE, frame(tool_calls=[look]), gap=0.001) for number, look in enumerate(looks)])
    accepted = await shared.submit(await shared.new_conversation(), "hello")
    view = View(accepted["run_id"])
    await follow(shared, view)
    await whole(shared, view)
    assert len(view.events) > LIVE_EVENTS
    anew = View(view.run_id)
    await follow(shared, anew)
    assert len(anew.events) <= LIVE_EVENTS
    assert (anew.text, anew.durable) == (view.text, view.durable)
    merged = next(event for event in anew.events if "from_seq" in event)
    inside = View(view.run_id, [event for event in view.events if event["seq"] <= merged["from_seq"]], connections=1)
    known = list(inside.events)
    await follow(shared, inside)
    assert inside.events == known
    assert [control["kind"] for control in inside.controls] == ["resync"]


# several Runs over one connection -----------------------------------------------------------------------------------


async def follow_all(gateway: Gateway, views: list[View], at_most: int | None) -> None:
    query = "&".join(f"run={SYSTEM_AGENT}/{view.run_id}@{view.position}" for view in views)
    by_run = {view.run_id: view for view in views}
    taken = 0
    async with gateway.client.stream("GET", f"/api/events?{query}") as response:
        assert response.status_code == 200, await response.aread()
        async for item in sse(response):
            by_run[item["run_id"]].take(item)
            taken += 1
            if at_most is not None and taken >= at_most:
                return


@pytest.mark.parametrize("seed", range(4))
async def test_four_runs_over_one_connection_are_each_seen_whole(shared: Gateway, shared_fake: FakeOllama, seed: int) -> None:
    chance = random.Random(seed)
    shared_fake.script(*[text(f"{number} " * 40, size=3, gap=0.002) for number in range(4)])
    views = [View((await shared.submit(await shared.new_conversation(), "hello"))["run_id"]) for _ in range(4)]
    while not all(view.ended for view in views):
        await follow_all(shared, views, chance.choice((1, 3, 7, 20)))
    for view in views:
        await whole(shared, view)
        assert view.text == view.events[-2]["payload"]["text"]
    assert sorted({view.text for view in views}) == [f"{number} " * 40 for number in range(4)]
    await follow_all(shared, views, None)  # nothing is left, and the stream ends by itself
    for view in views:
        await whole(shared, view)


async def test_with_four_runs_on_one_connection_everything_else_is_answered(shared: Gateway, shared_fake: FakeOllama) -> None:
    """A browser has six connections to a host: four active Runs and a tab need one."""
    gate = Gate()
    shared_fake.script(*[gated(gate, text("end"), before=begun("begin")) for _ in range(4)])
    conversations = [await shared.new_conversation() for _ in range(4)]
    views = [View((await shared.submit(one, "hello"))["run_id"]) for one in conversations]
    reading = asyncio.create_task(follow_all(shared, views, None))
    await shared.ok("PATCH", f"{shared.agent}/sessions/{conversations[0]}", {"title": "renamed"})
    assert (await shared.ok("GET", "/health"))["active_runs"] == 4
    await shared.ok("POST", f"{shared.agent}/runs/{views[3].run_id}/cancel")
    gate.open()
    await reading
    assert [view.events[-1]["type"] for view in views] == [*["run.completed"] * 3, "run.cancelled"]


# headers, silence, slow and many subscribers --------------------------------------------------------------------------


async def test_a_stream_tells_proxies_to_keep_out_and_beats_while_it_is_silent(shared: Gateway, shared_fake: FakeOllama) -> None:
    gate = Gate()
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    accepted = await shared.submit(await shared.new_conversation(), "hello")
    path = f"{shared.agent}/runs/{accepted['run_id']}/events"
    async with shared.client.stream("GET", path, headers={"Accept-Encoding": "gzip, br"}) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-store", "no")
        assert "content-encoding" not in response.headers
        received = b""
        async for chunk in response.aiter_raw():
            received += chunk
            if received.endswith(b":\n\n" * 2):
                gate.open()
            elif b"assistant.block.delta" in received:
                await shared.advance(SSE_HEARTBEAT_S)
        assert received.count(b"\n\n:\n\n") >= 1
        assert b"event: run.completed" in received


async def test_a_client_that_never_reads_slows_no_run_is_dropped_and_delays_no_stop(tmp_path: Path, fake: FakeOllama) -> None:
    """Two of them, behind a network that holds little; their streams are several Runs long."""
    async with Gateway(tmp_path, fake.port, SEND_BUFFER="4096") as gateway:
        old = []
        for _ in range(5):
            fake.script(text("".join(f"{number:04d}" for number in range(2800)), size=64))
            old.append((await gateway.run(await gateway.new_conversation(), "hello")).run_id)
        gate = Gate()
        fake.script(gated(gate, text(WORDS, size=9), before=begun("begin")))
        run_id = (await gateway.submit(await gateway.new_conversation(), "hello"))["run_id"]
        path = "/api/events?" + "&".join(f"run={SYSTEM_AGENT}/{one}@0" for one in (run_id, *old))
        async with never_reading(gateway, path) as lazy, never_reading(gateway, path) as lazier:
            view = View(run_id)
            await follow(gateway, view, 3)
            gate.open()
            await follow(gateway, view)
            assert view.events[-1]["type"] == "run.completed"
            await gateway.advance(SSE_BLOCKED_S + 1)
            for client in (lazy, lazier):
                assert (await rest_of(client)).count(b"event: run.completed") < len(old)
        async with never_reading(gateway, path), asyncio.timeout(STOP_S):
            assert await gateway.stop() == 0


async def test_eight_follow_a_run_and_the_ninth_is_refused(shared: Gateway, shared_fake: FakeOllama) -> None:
    gate = Gate()
    shared_fake.script(gated(gate, text("end"), before=begun("begin")))
    run_id = (await shared.submit(await shared.new_conversation(), "hello"))["run_id"]
    views = [View(run_id) for _ in range(SUBSCRIBERS_PER_RUN)]
    reading = [asyncio.create_task(follow(shared, view)) for view in views]
    async with asyncio.timeout(10):
        while not all(view.events for view in views):
            await asyncio.sleep(0.01)
    for path in (f"{shared.agent}/runs/{run_id}/events", f"/api/events?run={SYSTEM_AGENT}/{run_id}@0"):
        refused = await shared.call("GET", path)
        assert (refused.status_code, refused.json()["error"]["code"], refused.json()["error"]["retryable"]) == (429, "subscriber_limit", True)
    reading.pop().cancel()
    late = View(run_id)
    async with asyncio.timeout(10):
        while not late.events:
            if (await shared.call("HEAD", f"{shared.agent}/runs/{run_id}/events")).status_code == 200:
                try:
                    await follow(shared, late, 1)
                except AssertionError:
                    await asyncio.sleep(0.01)  # the place of the one that left is free in a moment
    gate.open()
    await asyncio.gather(*reading)
    assert all(view.ended for view in views[:-1])
