"""Counting: the byte bound, and what observations make of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.context.costs import Totals
from agent_builder.context.estimate import BYTES_COUNTER, Sample, calibrate, calibration_scope
from agent_builder.context.toolset import resolve_toolset, toolset_of
from agent_builder.protocol.tool_catalog import CATALOG
from tests.support.plans import EXACT_COUNTER, a_model

samples = st.lists(st.builds(Sample, st.integers(0, 30000), st.integers(0, 30000)), max_size=40)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abc", 3), ("中文", 6), ("🙂", 4), ("👩‍💻", 11)])
def test_the_fallback_counts_each_utf8_byte_as_a_token(text, tokens):
    assert BYTES_COUNTER.count(text) == tokens


def test_the_fallback_says_what_it_is():
    assert (BYTES_COUNTER.name, BYTES_COUNTER.overhead.request, BYTES_COUNTER.exact) == ("utf8-bytes-upper-bound-v1", 256, False)


@given(samples)
def test_the_same_observations_always_give_the_same_calibration(seen):
    assert calibrate(seen, exact=False) == calibrate(list(seen), exact=False)


@given(samples)
def test_only_the_newest_sixteen_complete_observations_count(seen):
    complete = [one for one in seen if one.estimated and one.observed]
    assert calibrate(seen, exact=False) == calibrate(complete[:16], exact=False)
    assert calibrate(seen, exact=False).samples == min(16, len(complete))


@given(st.lists(st.builds(Sample, st.integers(1, 30000), st.integers(1, 30000)), min_size=1, max_size=16))
def test_every_observation_lies_within_the_error_of_its_own_estimate(seen):
    calibration = calibrate(seen, exact=False)
    for one in seen:
        soft = calibration.estimate(Totals(text=0, upper=one.estimated, bytes=0))
        assert abs(soft.tokens - one.observed) <= soft.error + 1


@pytest.mark.parametrize(("count", "exact", "calibrated"), [(0, True, True), (0, False, False), (2, False, False), (3, False, True)])
def test_three_observations_calibrate_and_exact_counts_need_none(count, exact, calibrated):
    assert calibrate([Sample(1000, 300)] * count, exact=exact).calibrated is calibrated


def test_a_steady_quarter_is_estimated_without_error():
    soft = calibrate([Sample(1000, 250), Sample(2000, 500), Sample(4000, 1000)], exact=False).estimate(Totals(0, 8000, 0))
    assert (soft.tokens, soft.error, soft.samples) == (2000, 0, 3)


def test_exact_counts_learn_only_the_template_overhead():
    calibration = calibrate([Sample(1300, 1060), Sample(900, 650)], exact=True)
    soft = calibration.estimate(Totals(text=5000, upper=5400, bytes=0))
    assert (soft.tokens, soft.error) == (5160, 10)
    unseen = calibrate([], exact=True).estimate(Totals(text=5000, upper=5400, bytes=0))
    assert (unseen.tokens, unseen.error) == (5000, 400)


def test_a_bound_that_observations_exceed_makes_compaction_start_earlier():
    assert calibrate([Sample(1000, 250)] * 3, exact=False).inflation() == 1.0
    assert calibrate([Sample(1000, 1100)] * 3, exact=False).inflation() == 1.125
    assert calibrate([Sample(1000, 1100)] * 2, exact=False).inflation() == 1.0


def scope(model, toolset, counter=BYTES_COUNTER) -> str:
    return calibration_scope(model, toolset, counter)


def test_another_model_toolset_or_window_is_another_scope():
    tools = resolve_toolset(CATALOG, a_model(), budget=2)
    scopes = {
        scope(a_model(), tools), scope(a_model(), toolset_of(())), scope(a_model(4096), tools),
        scope(a_model(digest="e" * 64), tools),
        scope(a_model(), tools, EXACT_COUNTER), scope(a_model(model_id="other"), tools),
    }
    assert len(scopes) == 6
    assert scope(a_model(), tools) in scopes
