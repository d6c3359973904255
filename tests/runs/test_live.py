import asyncio
from datetime import UTC, datetime

import pytest

from agent_builder.protocol.errors import SubscriberLimit
from agent_builder.protocol.events import (
    AssistantDelta,
    Control,
    Event,
    Payload,
    RunCancelled,
    RunIdentity,
    RunStage,
    make_event,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import LIVE_EVENTS, LIVE_RUNS_KEPT, SUBSCRIBERS, SUBSCRIBERS_PER_RUN
from agent_builder.protocol.messages import Usage
from agent_builder.runs.live import LiveRecord, LiveRuns, Subscription

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def identity() -> RunIdentity:
    return RunIdentity(agent_id=new_id(), conversation_id=new_id(), turn_id=new_id(), run_id=new_id())


def say(record: LiveRecord, seq: int, payload: Payload) -> Event:
    event = make_event(record.identity, seq, NOW, payload)
    record.append([event])
    return event


def end(record: LiveRecord, seq: int) -> Event:
    return say(record, seq, RunCancelled(usage=Usage(), elapsed_ms=1))


async def read_all(subscription: Subscription) -> list[Event | Control]:
    items: list[Event | Control] = []
    while batch := await subscription.batch():
        items += batch
    return items


async def test_a_subscriber_gets_what_was_said_before_and_after_it_came() -> None:
    record = LiveRuns().open(identity())
    first = say(record, 1, RunStage(stage="preparing"))
    subscription = record.subscribe(0)
    assert await subscription.batch() == [first]
    waiting = asyncio.ensure_future(read_all(subscription))
    await asyncio.sleep(0)
    second = say(record, 2, AssistantDelta(text="a"))
    last = end(record, 3)
    assert await waiting == [second, last]


async def test_a_subscriber_resumes_exactly_after_its_seq() -> None:
    record = LiveRuns().open(identity())
    events = [say(record, seq, AssistantDelta(text=str(seq))) for seq in range(1, 10)] + [end(record, 10)]
    for seq in range(11):
        assert await read_all(record.subscribe(seq)) == events[seq:]


async def test_oldest_deltas_are_merged_and_nothing_is_lost() -> None:
    record = LiveRuns().open(identity())
    total = 3 * LIVE_EVENTS
    for seq in range(1, total + 1):
        say(record, seq, AssistantDelta(text=f"{seq} "))
    end(record, total + 1)
    items = await read_all(record.subscribe(0))
    events = [item for item in items if isinstance(item, Event)]
    assert len(events) <= LIVE_EVENTS
    assert "".join(str(event.payload.get("text", "")) for event in events) == "".join(f"{seq} " for seq in range(1, total + 1))
    covered = [seq for event in events for seq in range(event.from_seq or event.seq, event.seq + 1)]
    assert covered == list(range(1, total + 2))


async def test_the_bound_holds_where_only_the_newer_half_has_deltas_to_merge() -> None:
    record = LiveRuns().open(identity())
    for seq in range(1, 2 * LIVE_EVENTS):
        say(record, seq, AssistantDelta(text="x") if seq % 100 > 40 else RunStage(stage="tool"))
        assert len(record.after(0)) <= LIVE_EVENTS


async def test_who_follows_is_never_told_to_read_again_however_slow() -> None:
    """One reads everything at once, one every 50 events, one nothing until the end."""
    record = LiveRuns().open(identity())
    readers: list[tuple[int, Subscription, list[Event | Control]]] = [(every, record.subscribe(0), []) for every in (1, 50, 10**6)]
    for seq in range(1, 4 * LIVE_EVENTS):
        say(record, seq, AssistantDelta(text=f"{seq} ") if seq % 3 else RunStage(stage="tool"))
        for every, subscription, seen in readers:
            if seq % every == 0:
                seen += await subscription.batch()
    end(record, 4 * LIVE_EVENTS)
    for _, subscription, seen in readers:
        seen += await read_all(subscription)
        events = [item for item in seen if isinstance(item, Event)]
        assert len(events) == len(seen)
        assert "".join(str(event.payload.get("text", "")) for event in events) == "".join(f"{seq} " for seq in range(1, 4 * LIVE_EVENTS) if seq % 3)


async def test_durable_events_survive_merging() -> None:
    record = LiveRuns().open(identity())
    kept = []
    for seq in range(1, 2 * LIVE_EVENTS, 2):
        say(record, seq, AssistantDelta(text="x"))
        if seq % 101 == 0:
            kept.append(say(record, seq + 1, RunCancelled(usage=Usage(), elapsed_ms=seq)))
    assert [event for event in record.after(0) if event.durability == "durable"] == kept


async def test_a_resume_inside_a_merged_range_is_told_to_resync() -> None:
    record = LiveRuns().open(identity())
    for seq in range(1, LIVE_EVENTS + 2):
        say(record, seq, AssistantDelta(text="x"))
    subscription = record.subscribe(1)
    assert await subscription.batch() == [Control(kind="resync", from_seq=1, run_id=record.identity.run_id)]
    assert await subscription.batch() == []


async def test_the_subscriber_limits_hold_at_n_and_n_plus_one() -> None:
    live = LiveRuns()
    records = [live.open(identity()) for _ in range(SUBSCRIBERS // SUBSCRIBERS_PER_RUN + 1)]
    for record in records[:-1]:
        for _ in range(SUBSCRIBERS_PER_RUN):
            assert live.subscribe(record.identity.agent_id, record.identity.run_id, 0) is not None
        with pytest.raises(SubscriberLimit):
            live.subscribe(record.identity.agent_id, record.identity.run_id, 0)
    with pytest.raises(SubscriberLimit):
        live.subscribe(records[-1].identity.agent_id, records[-1].identity.run_id, 0)


async def test_a_closed_subscription_frees_its_place() -> None:
    live = LiveRuns()
    record = live.open(identity())
    subscriptions = [record.subscribe(0) for _ in range(SUBSCRIBERS_PER_RUN)]
    subscriptions[0].close()
    assert live.subscribe(record.identity.agent_id, record.identity.run_id, 0) is not None


async def test_another_agents_run_is_unknown() -> None:
    live = LiveRuns()
    record = live.open(identity())
    assert live.subscribe(new_id(), record.identity.run_id, 0) is None


async def test_only_the_newest_ended_runs_are_kept_and_active_ones_always() -> None:
    live = LiveRuns()
    active = live.open(identity())
    ended = []
    for _ in range(LIVE_RUNS_KEPT + 3):
        record = live.open(identity())
        end(record, 1)
        ended.append(record.identity)
    live.open(identity())
    known = []
    for one in ended:
        subscription = live.subscribe(one.agent_id, one.run_id, 1)
        if subscription is not None:
            subscription.close()
            known.append(one)
    assert known == ended[3:]
    assert live.subscribe(active.identity.agent_id, active.identity.run_id, 0) is not None


async def test_a_forgotten_run_ends_its_streams_with_gone() -> None:
    live = LiveRuns()
    record = live.open(identity())
    subscription = live.subscribe(record.identity.agent_id, record.identity.run_id, 0)
    assert subscription is not None
    live.forget([record.identity.run_id])
    assert await read_all(subscription) == [Control(kind="gone", run_id=record.identity.run_id)]
    assert live.subscribe(record.identity.agent_id, record.identity.run_id, 0) is None
