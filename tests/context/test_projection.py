"""What the meter is told."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_builder.context.compiler import compile_plan
from agent_builder.context.estimate import BYTES_COUNTER, Sample, calibrate
from agent_builder.context.inputs import continuation_headroom
from agent_builder.context.projection import Evidence, hindrance, project_next_turn, rooms
from agent_builder.protocol.errors import ModelContextLimit
from tests.support.plans import COUNTERS, EXACT_COUNTER, a_model, histories, inputs, windows

QUARTER = calibrate([Sample(1000, 250)] * 3, exact=False)
EXACT = calibrate([], exact=True)


def project(model, counter, calibration, history=()):
    return project_next_turn(inputs(model, "", history=history, calibration=calibration), counter)


@settings(max_examples=40, deadline=None)
@given(history=histories, window=windows, counter=st.sampled_from(COUNTERS), letter=st.sampled_from(["a", "中", "🙂"]))
def test_a_message_that_is_called_safe_is_never_refused(history, window, counter, letter):
    model = a_model(window)
    try:
        projection = project(model, counter, EXACT if counter.exact else QUARTER, history)
    except ModelContextLimit:
        return
    size = projection.safe_user_bytes // len(letter.encode())
    compile_plan(inputs(model, letter * size, history=history, git_status=" M a.txt"), counter)


INFLATED = calibrate([Sample(1000, 1300)] * 3, exact=False)
STATUSES = [None, " M a.txt\n", " M file.txt\n" * 300]
KNOWN = [(BYTES_COUNTER, QUARTER, "m"), (BYTES_COUNTER, INFLATED, "m"), (EXACT_COUNTER, EXACT, "abc")]


@settings(max_examples=80, deadline=None)
@given(history=st.builds(lambda some, times: some * times, histories, st.integers(1, 6)), window=windows, known=st.sampled_from(KNOWN),
       status=st.sampled_from(STATUSES), compacted=st.sampled_from([0, 0, 2]))
def test_the_largest_message_that_makes_no_turn_leave_is_told_exactly(history, window, known, status, compacted):
    counter, calibration, token = known
    empty = inputs(a_model(window), "", history=history, git_status=status, calibration=calibration, compacted=compacted)
    try:
        start = compile_plan(empty, counter).start
    except ModelContextLimit:
        return
    safe, whole = rooms(empty, continuation_headroom(empty.model, empty.toolset, counter), counter)
    assert compile_plan(replace(empty, user_text=token * whole), counter).start == start
    if whole < safe:
        assert compile_plan(replace(empty, user_text=token * (whole + 1)), counter).start > start
    told = project_next_turn(empty, counter)
    if counter.exact:
        assert (told.safe_user_tokens, told.compact_before_user_tokens) == (safe, whole)


@settings(max_examples=40, deadline=None)
@given(history=histories, known=st.sampled_from(KNOWN))
def test_used_usable_and_left_are_counted_alike(history, known):
    counter, calibration, _ = known
    told = project(a_model(32768), counter, calibration, history)
    assert 0 < told.used_tokens <= told.usable_tokens <= told.input_budget
    assert told.left_percent == (told.usable_tokens - told.used_tokens) * 100 // told.usable_tokens
    assert told.compact_before_user_tokens <= told.safe_user_tokens <= told.usable_tokens


def test_exactly_the_safe_tokens_are_admitted_and_one_more_is_not():
    model = a_model(8192)
    safe = project(model, EXACT_COUNTER, EXACT).safe_user_tokens
    compile_plan(inputs(model, "abc" * safe), EXACT_COUNTER)
    with pytest.raises(ModelContextLimit):
        compile_plan(inputs(model, "abc" * (safe + 1)), EXACT_COUNTER)


def test_a_bound_of_bytes_is_never_shown_as_tokens():
    projection = project(a_model(32768), BYTES_COUNTER, QUARTER)
    plan = compile_plan(inputs(a_model(32768), ""), BYTES_COUNTER)
    assert projection.fixed_context_tokens == -(-plan.totals.upper // 4)
    assert projection.safe_user_tokens == projection.safe_user_bytes // 4
    assert projection.counted_by == "upper_bound"
    assert (projection.used_tokens, projection.usable_tokens) == (projection.fixed_context_tokens, 7168)
    assert projection.left_percent == (7168 - projection.used_tokens) * 100 // 7168
    assert (projection.operational_context_tokens, projection.input_budget, projection.samples) == (32768, 28672, 3)


def test_an_estimate_above_the_bound_is_what_the_meter_counts():
    projection = project(a_model(32768), BYTES_COUNTER, calibrate([Sample(1000, 1200)] * 3, exact=False))
    plan = compile_plan(inputs(a_model(32768), ""), BYTES_COUNTER)
    assert projection.counted_by == "soft_estimate"
    assert (projection.used_tokens, projection.usable_tokens) == (projection.fixed_context_tokens, 28672)
    assert projection.left_percent < (28672 - plan.totals.upper) * 100 // 28672


@pytest.mark.parametrize(("evidence", "expected"), [
    (Evidence(EXACT), None),
    (Evidence(QUARTER), None),
    (Evidence(QUARTER, active_run=True), ("stale", "active_run")),
    (Evidence(EXACT, repetition_truncated=True), ("stale", "repetition_truncated")),
    (Evidence(calibrate([Sample(10, 5)] * 2, exact=False)), ("unavailable", "too_few_samples")),
    (Evidence(calibrate([], exact=False), other_scope=True), ("stale", "scope_drift")),
    (Evidence(QUARTER, other_scope=True), None),
])
def test_a_projection_is_given_only_on_firm_ground(evidence, expected):
    assert hindrance(evidence) == expected
