from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.protocol.events import (
    Event,
    ModelRequestStarted,
    ModelResponseFinished,
    Payload,
    PermissionRequested,
    PermissionResolved,
    RunIdentity,
    ToolCallFinished,
    ToolCallProposed,
    ToolCallStarted,
    TransportAttemptFinished,
    TransportAttemptStarted,
    make_event,
)
from agent_builder.protocol.messages import Usage
from agent_builder.runs.open_ends import OpenEnds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunIdentity(agent_id="a", conversation_id="c", turn_id="t", run_id="r")
WHOLE: list[Payload] = [
    ModelRequestStarted(call=1, round=1, attempt=1), TransportAttemptStarted(call=1, attempt=1),
    TransportAttemptFinished(call=1, attempt=1, outcome="model_transport", ms=1), TransportAttemptStarted(call=1, attempt=2),
    TransportAttemptFinished(call=1, attempt=2, outcome="first_frame", ms=1), ModelResponseFinished(call=1, reason="stop", usage=Usage()),
    ToolCallProposed(call_id="one", tool_id="file/write", arguments_digest="d", preview="p", written_as_text=False),
    PermissionRequested(permission_id="p", call_id="one", tool_id="file/write", preview="p", truncated=False, expires_at=NOW),
    PermissionResolved(permission_id="p", decision="approve"), ToolCallStarted(call_id="one", tool_id="file/write"),
    ToolCallFinished(call_id="one", tool_id="file/write", outcome="ok", receipt={}), ModelRequestStarted(call=2, round=2, attempt=1),
]
PAIRS = {
    "model.request.started": "model.response.finished", "model.transport.attempt.started": "model.transport.attempt.finished",
    "permission.requested": "permission.resolved", "tool.call.proposed": "tool.call.finished",
}


def events(payloads: list[Payload]) -> list[Event]:
    return [make_event(RUN, seq, NOW, payload) for seq, payload in enumerate(payloads, 1)]


@given(st.integers(0, len(WHOLE)))
def test_wherever_a_run_ends_each_beginning_has_one_end(cut: int) -> None:
    so_far = WHOLE[:cut]
    types = [payload.type for payload in (*so_far, *OpenEnds(events(so_far)).closed("cancelled", NOW))]
    for begin, end in PAIRS.items():
        assert types.count(begin) == types.count(end), (begin, types)


@given(st.integers(0, len(WHOLE)))
def test_what_is_closed_has_nothing_open(cut: int) -> None:
    ends = OpenEnds(events(WHOLE[:cut]))
    for event in events(ends.closed("cancelled", NOW)):
        ends.note(event)
    assert ends.closed("cancelled", NOW) == []
    assert not ends.model_call


def test_the_ends_say_why_and_what_is_not_known() -> None:
    ends = OpenEnds(events([WHOLE[0], WHOLE[1]])).closed("run_deadline", NOW + timedelta(seconds=2))
    assert ends == [
        TransportAttemptFinished(call=1, attempt=1, outcome="run_deadline", ms=2000),
        ModelResponseFinished(call=1, reason="run_deadline", usage=Usage(complete=False)),
    ]
    ((finished,), (unstarted,)) = (OpenEnds(events(WHOLE[6:cut])).closed("interrupted")[-1:] for cut in (10, 7))
    assert isinstance(finished, ToolCallFinished) and isinstance(unstarted, ToolCallFinished)
    assert (finished.outcome, unstarted.outcome, finished.code) == ("outcome_unknown", "failed", "interrupted")


@pytest.mark.parametrize(("tool_id", "outcome"), [
    ("file/edit", "outcome_unknown"), ("file/write", "outcome_unknown"), ("exec/run", "outcome_unknown"), ("file/of_later", "outcome_unknown"),
    ("file/read_text", "failed"), ("file/stat", "failed"), ("file/glob", "failed"), ("file/grep", "failed"), ("builtin/echo", "failed"),
])
def test_only_what_may_have_had_an_effect_ends_unknown(tool_id: str, outcome: str) -> None:
    ends = OpenEnds(events([
        ToolCallProposed(call_id="one", tool_id=tool_id, arguments_digest="d", preview="p", written_as_text=False),
        ToolCallStarted(call_id="one", tool_id=tool_id),
    ]))
    assert ends.closed("cancelled", NOW) == [ToolCallFinished(call_id="one", tool_id=tool_id, outcome=outcome, code="cancelled", receipt={})]  # type: ignore[arg-type]
