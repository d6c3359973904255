"""What is shown of tool results and kept of a Turn."""

from hypothesis import given
from hypothesis import strategies as st

from agent_builder.context.instructions import FINALIZATION_MARKER
from agent_builder.context.results import completed_bundle, project_result, result_budget
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.messages import Exchange
from tests.support.plans import a_call, long_texts


def test_two_calls_may_show_16_kibibytes_and_each_further_one_8_more():
    assert [result_budget(calls) for calls in (0, 1, 2, 3, 32)] == [16384, 16384, 16384, 24576, 16384 + 30 * 8192]


def test_a_result_that_just_fits_is_shown_whole_and_one_byte_more_is_not():
    assert project_result("call_1", "x" * 1000, 1000) == "x" * 1000
    cut = project_result("call_1", "x" * 1001, 1000)
    assert len(cut) == 1000
    assert cut.endswith(f"\n[shortened: call call_1, 1001 bytes, sha256 {digest_bytes(b'x' * 1001)}, reason run_result_bound]")


def test_without_room_only_the_receipt_is_shown():
    assert project_result("call_1", "x" * 50, 0).startswith("[shortened: call call_1, 50 bytes")
    assert project_result("call_1", "", -10) == ""


@given(text=long_texts, room=st.integers(300, 4000))
def test_a_projected_result_stays_within_its_room_and_cuts_no_character(text, room):
    shown = project_result("call_1", text, room)
    assert len(shown.encode()) <= room
    assert shown == project_result("call_1", text, room)
    if shown != text:
        assert text.startswith(shown[: shown.rindex("\n[shortened")])


def test_a_bundle_repeats_what_its_turn_sent():
    bundle = completed_bundle("t", "question", "preface", [a_call()], "answer", finalized=True)
    assert bundle.exchanges == (a_call(), Exchange(correction=FINALIZATION_MARKER))
    assert completed_bundle("t", "question", "preface", [a_call()], "answer", finalized=False).exchanges == (a_call(),)
    assert (bundle.turn_id, bundle.user_text, bundle.preface, bundle.answer) == ("t", "question", "preface", "answer")


def kept_bytes(bundle) -> int:
    calls = [call for exchange in bundle.exchanges for call in exchange.calls]
    return len(bundle.preface.encode()) + sum(len(call.result.encode()) + len("path") + len(call.arguments["path"]) for call in calls)


def test_a_bundle_keeps_40_kibibytes_beside_message_and_answer():
    fits = completed_bundle("t", "q", "p" * 20000, [a_call("1", "x" * (20960 - 7), "abc")], "a", finalized=False)
    assert kept_bytes(fits) == 40960
    assert "shortened" not in fits.exchanges[0].calls[0].result
    cut = completed_bundle("t", "q", "p" * 20000, [a_call("1", "x" * (20961 - 7), "abc")], "a", finalized=False)
    assert kept_bytes(cut) <= 40960
    assert "reason turn_bound]" in cut.exchanges[0].calls[0].result
