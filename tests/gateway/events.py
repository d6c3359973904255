"""Events and records for tests of streams."""

from datetime import UTC, datetime

from agent_builder.protocol.events import Event, Payload, RunIdentity, make_event
from agent_builder.protocol.ids import new_id
from agent_builder.runs.live import LiveRecord, LiveRuns

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def identity(agent_id: str | None = None) -> RunIdentity:
    return RunIdentity(agent_id=agent_id or new_id(), conversation_id=new_id(), turn_id=new_id(), run_id=new_id())


def numbered(run: RunIdentity, *payloads: Payload, first: int = 1) -> list[Event]:
    return [make_event(run, seq, NOW, payload) for seq, payload in enumerate(payloads, first)]


def live_run(live: LiveRuns, run: RunIdentity, *payloads: Payload) -> LiveRecord:
    record = live.open(run)
    record.append(numbered(run, *payloads))
    return record
