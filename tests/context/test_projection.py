"""What the meter is told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_builder.context.compiler import compile_plan
from agent_builder.context.estimate import BYTES_COUNTER, Sample, calibrate
from agent_builder.context.projection import Evidence, hindrance, project_next_turn
from agent_builder.protocol.errors import ModelContextLimit
from tests.support.plans import COUNTERS, EXACT_COUNTER, a_model, histories, inputs, windows

QUARTER = calibrate([Sample(1000, 250)] * 3, exact=False)
EXACT = calibrate([], exact=True)


def project(model, counter, calibration, history=()):
    return project_next_turn(compile_plan(inputs(model, "", history=history), counter), calibration, counter)


@settings(max_examples=40, deadline=None)
@given(history=histories, window=windows, counter=st.sampled_from(COUNTERS), letter=st.sampled_from(["a", "中", "🙂"]))
def test_a_message_that_is_called_safe_is_never_refused(history, window, counter, letter):
    model = a_model(window)
    try:
        projection = project(model, counter, EXACT if counter.exact else QUARTER, history)
    except ModelContextLimit:
        return
    size = projection.safe_user_bytes // len(letter.encode())
    compile_plan(inputs(model, letter * size, history=history), counter)


@settings(max_examples=40, deadline=None)
@given(history=histories, window=windows)
def test_a_message_up_to_the_point_of_compaction_leaves_the_history_whole(history, window):
    model = a_model(window)
    try:
        before = compile_plan(inputs(model, "", history=history), EXACT_COUNTER)
    except ModelContextLimit:
        return
    room = project_next_turn(before, EXACT, EXACT_COUNTER).compact_before_user_tokens
    after = compile_plan(inputs(model, "abc" * room, history=history), EXACT_COUNTER)
    if before.start:
        assert after.start >= before.start
    else:
        assert after.start == 0


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
    assert projection.left_percent == (28672 - plan.totals.upper) * 100 // 28672
    assert (projection.operational_context_tokens, projection.input_budget, projection.samples) == (32768, 28672, 3)


def test_an_estimate_above_the_bound_is_what_the_meter_counts():
    projection = project(a_model(32768), BYTES_COUNTER, calibrate([Sample(1000, 1200)] * 3, exact=False))
    plan = compile_plan(inputs(a_model(32768), ""), BYTES_COUNTER)
    assert projection.counted_by == "soft_estimate"
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
