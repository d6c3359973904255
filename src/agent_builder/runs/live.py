"""Events of active and recent Runs in memory, and their subscribers.

A subscriber is a position in its Run's record, not a queue: it costs nothing while it is slow, and it never slows the Run.
When a record outgrows its bound, its oldest adjacent deltas are merged, but not across the position of a subscriber; one who
comes back to a position that lies inside a merged delta is told to `resync` and closed.
"""

import asyncio
from collections import OrderedDict

from agent_builder.protocol.errors import SubscriberLimit
from agent_builder.protocol.events import AssistantDelta, Control, Event, RunIdentity, ThinkingDelta
from agent_builder.protocol.limits import (
    LIVE_BYTES,
    LIVE_EVENTS,
    LIVE_RUNS_KEPT,
    PREVIEW_BYTES,
    SUBSCRIBERS,
    SUBSCRIBERS_PER_RUN,
)

_DELTAS = (AssistantDelta.type, ThinkingDelta.type)


class LiveRecord:
    """What one Run has said so far, in order of seq."""

    def __init__(self, identity: RunIdentity) -> None:
        self.identity = identity
        self.ended = False
        self._events: list[Event] = []
        self._bytes = 0
        self._merge_at = LIVE_EVENTS
        self._subscriptions: set[Subscription] = set()

    def append(self, events: list[Event]) -> None:
        for event in events:
            self._events.append(event)
            self._bytes += _size(event)
            self.ended = self.ended or event.terminal
        if len(self._events) > self._merge_at or self._bytes > LIVE_BYTES:
            self._make_room()
        self._wake()

    def tell(self, control: Control) -> None:
        """Gives a control frame to those who listen now; it is not kept."""
        for subscription in self._subscriptions:
            subscription.controls.append(control)
        self._wake()

    def end(self, control: Control) -> None:
        """Ends all subscriptions with a last control frame; the record takes no new ones."""
        self.ended = True
        self.tell(control)

    def after(self, seq: int) -> list[Event]:
        """Events beyond `seq`. The first one may stand for a range that begins at or before it."""
        low, high = 0, len(self._events)
        while low < high:
            middle = (low + high) // 2
            if self._events[middle].seq <= seq:
                low = middle + 1
            else:
                high = middle
        return self._events[low:]

    def subscribers(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, seq: int) -> "Subscription":
        subscription = Subscription(self, seq)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: "Subscription") -> None:
        self._subscriptions.discard(subscription)

    def _wake(self) -> None:
        for subscription in self._subscriptions:
            subscription.wake()

    def _make_room(self) -> None:
        """The older half first, so that the cost is spread over many appends. Where too little can be merged it is not tried
        again at once."""
        for oldest in (len(self._events) // 2, len(self._events)):
            if len(self._events) > LIVE_EVENTS or self._bytes > LIVE_BYTES:
                self._merge(oldest)
        left = len(self._events)
        self._merge_at = LIVE_EVENTS if left <= LIVE_EVENTS else left + LIVE_EVENTS // 8

    def _merge(self, oldest: int) -> None:
        """Merges adjacent deltas among that many of the oldest events, never across the position of somebody who follows."""
        positions = {subscription.position for subscription in self._subscriptions}
        merged: list[Event] = []
        for event in self._events[:oldest]:
            followed = merged and any(merged[-1].seq <= position < event.seq for position in positions)
            if merged and not followed and _mergeable(merged[-1], event):
                merged[-1] = _merge(merged[-1], event)
            else:
                merged.append(event)
        self._events[:oldest] = merged
        self._bytes = sum(map(_size, self._events))


class Subscription:
    """One reader of one Run. `batch` gives everything that is ready; an empty batch is the end."""

    def __init__(self, record: LiveRecord, seq: int) -> None:
        self.controls: list[Control] = []
        self._record = record
        self._seq = seq
        self._ready = asyncio.Event()
        self._closed = False

    @property
    def run_id(self) -> str:
        return self._record.identity.run_id

    @property
    def position(self) -> int:
        """The seq up to which everything was given."""
        return self._seq

    async def batch(self) -> list[Event | Control]:
        while not self._closed:
            self._ready.clear()
            items = self._take()
            if items:
                return items
            if self._record.ended:
                self.close()
                break
            await self._ready.wait()
        return []

    def wake(self) -> None:
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._record.unsubscribe(self)
        self._ready.set()

    def _take(self) -> list[Event | Control]:
        events = self._record.after(self._seq)
        if events and events[0].from_seq is not None and events[0].from_seq <= self._seq:
            self.close()
            return [Control(kind="resync", from_seq=self._seq, run_id=self.run_id)]
        if events:
            self._seq = events[-1].seq
        controls, self.controls = self.controls, []
        return [*events, *controls]


class LiveRuns:
    """The records of all active Runs and of the newest ended ones."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, LiveRecord] = OrderedDict()

    def open(self, identity: RunIdentity) -> LiveRecord:
        record = self._records[identity.run_id] = LiveRecord(identity)
        self._evict()
        return record

    def subscribe(self, agent_id: str, run_id: str, after_seq: int) -> Subscription | None:
        """None: this Run is not in memory (or another Agent's). Raises SubscriberLimit."""
        record = self._records.get(run_id)
        if record is None or record.identity.agent_id != agent_id:
            return None
        everyone = sum(one.subscribers() for one in self._records.values())
        if record.subscribers() >= SUBSCRIBERS_PER_RUN or everyone >= SUBSCRIBERS:
            raise SubscriberLimit
        return record.subscribe(after_seq)

    def forget(self, run_ids: list[str]) -> None:
        """Drops deleted Runs and ends their streams."""
        for run_id in run_ids:
            record = self._records.pop(run_id, None)
            if record is not None:
                record.end(Control(kind="gone", run_id=run_id))

    def end_all(self) -> None:
        """The Gateway stops: every stream ends with `gone`."""
        for run_id, record in self._records.items():
            record.end(Control(kind="gone", run_id=run_id))

    def _evict(self) -> None:
        ended = [run_id for run_id, record in self._records.items() if record.ended]
        for run_id in ended[: max(0, len(ended) - LIVE_RUNS_KEPT)]:
            del self._records[run_id]


def _size(event: Event) -> int:
    text = event.payload.get("text")
    return LIVE_BYTES // LIVE_EVENTS // 4 + (len(text) if isinstance(text, str) else PREVIEW_BYTES // 8)


def _mergeable(first: Event, second: Event) -> bool:
    together = len(str(first.payload.get("text"))) + len(str(second.payload.get("text")))
    return first.type == second.type and first.type in _DELTAS and together <= PREVIEW_BYTES


def _merge(first: Event, second: Event) -> Event:
    """One delta with the later one's identity that stands for both seqs."""
    text = f"{first.payload['text']}{second.payload['text']}"
    return second.model_copy(update={"from_seq": first.from_seq or first.seq, "payload": {"text": text}})
