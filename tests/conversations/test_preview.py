"""What the composer is told about the room for the next message."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_builder.context.compiler import render_call
from agent_builder.context.estimate import calibration_scope
from agent_builder.conversations.planning import no_tools
from agent_builder.conversations.preview import Preview
from agent_builder.llm.models import Models
from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.request import TemplateOverhead
from agent_builder.storage.calibration import Observation, add_observation, put_overhead
from tests.support.conversing import Conversing, conversing
from tests.support.fake_ollama import FakeOllama
from tests.support.plans import EXACT_COUNTER


def preview(talk: Conversing) -> Preview:
    return Preview(talk.database, talk.models, talk.admission)


async def test_without_observations_nothing_is_guessed(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        shown = await preview(talk).of(talk.conversation_id)
        assert shown.model_dump(exclude_none=True) == {"state": "unavailable", "reason": "too_few_samples", "model_id": "test"}


async def test_three_observations_make_a_projection(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await talk.say("one")
        await talk.observe(admitted.scope, (4000, 1000), (0, 0), (8000, 2000))
        assert (await preview(talk).of(talk.conversation_id)).reason == "too_few_samples"
        await talk.observe(admitted.scope, (6000, 1500))
        shown = await preview(talk).of(talk.conversation_id)
        assert shown.state == "available"
        projection = shown.projection
        assert projection is not None
        assert (projection.label, projection.samples, projection.tools) == ("conservative tools", 3, True)
        assert (projection.operational_context_tokens, projection.input_budget) == (32768, 28672)
        assert 0 < projection.fixed_context_tokens < 2000
        assert projection.compact_before_user_tokens < projection.safe_user_tokens
        again = await Preview(talk.database, talk.models, talk.restarted().admission).of(talk.conversation_id)
        assert again == shown


async def test_what_is_called_safe_is_admitted(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake, window_cap=8192) as talk:
        for number in range(8):
            admitted = await talk.say(f"question {number}", "中文" * 200)
        await talk.observe(admitted.scope, *[(1000, 400)] * 3)
        projection = (await preview(talk).of(talk.conversation_id)).projection
        assert projection is not None
        await talk.admit("m" * projection.safe_user_bytes)


async def test_an_active_run_makes_it_stale(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await talk.admit("one")
        await talk.observe(admitted.scope, *[(1000, 400)] * 3)
        shown = await preview(talk).of(talk.conversation_id)
        assert (shown.state, shown.reason, shown.projection) == ("stale", "active_run", None)


async def test_a_stream_closed_for_repetition_makes_it_stale_until_the_next_complete_answer(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await talk.admit("one")
        await talk.observe(admitted.scope, *[(1000, 400)] * 3)
        await talk.finish(admitted, reason="repetition_truncated")
        shown = await preview(talk).of(talk.conversation_id)
        assert (shown.state, shown.reason) == ("stale", "repetition_truncated")
        await talk.fail((await talk.admit("fails")).turn)
        assert (await preview(talk).of(talk.conversation_id)).reason == "repetition_truncated"
        await talk.say("two")
        assert (await preview(talk).of(talk.conversation_id)).state == "available"


async def test_another_model_than_the_observed_one_is_a_drift(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await talk.say("one")
        await talk.observe(admitted.scope, *[(1000, 400)] * 3)
        fake.models[fake.model].digest = "ef" * 32
        talk.models.mark_stale("test")
        shown = await preview(talk).of(talk.conversation_id)
        assert (shown.state, shown.reason) == ("stale", "scope_drift")


async def test_a_chat_only_baseline_is_labelled_and_carries_no_tools(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await talk.say("one")
        plain = calibration_scope(admitted.model, no_tools(), admitted.counter)
        await talk.observe(plain, *[(1000, 400)] * 3)
        shown = await preview(talk).of(talk.conversation_id)
        assert (shown.state, shown.reason, shown.projection) == ("unavailable", "too_few_samples", None)
        assert shown.chat_only_projection is not None
        assert (shown.chat_only_projection.label, shown.chat_only_projection.tools) == ("chat-only baseline", False)


async def test_the_default_model_is_meant_unless_another_is_named_as_for_a_message(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        other = replace(talk.models.profile(None), model_id="other")
    second = tmp_path / "second"
    second.mkdir()
    async with conversing(second, fake, other) as talk:
        assert (await preview(talk).of(talk.conversation_id)).model_id == "test"
        await talk.say("one", model_id="other")
        assert (await preview(talk).of(talk.conversation_id)).model_id == "test"
        assert (await preview(talk).of(talk.conversation_id, "other")).model_id == "other"


async def test_a_model_that_is_gone_and_instructions_that_cannot_be_used_are_reasons(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        shown = await preview(talk).of(talk.conversation_id, "gone")
        assert (shown.state, shown.reason, shown.model_id) == ("unavailable", "model_unavailable", "gone")
        admitted = await talk.say("one")
        await talk.observe(admitted.scope, *[(1000, 400)] * 3)
        file = talk.workspace / "agent-builder.md"
        file.write_text("i" * 7169)
        file.chmod(0o600)
        assert (await preview(talk).of(talk.conversation_id)).reason == "instructions_refused"


async def test_an_unknown_conversation_is_not_found(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        with pytest.raises(NotFound):
            await preview(talk).of(new_id())


async def test_samples_are_measured_by_the_overhead_now_in_force(tmp_path: Path, fake: FakeOllama, monkeypatch: pytest.MonkeyPatch):
    """What was learnt since an answer neither moves the estimate nor widens its error."""
    async def exact(models, model):
        return EXACT_COUNTER

    monkeypatch.setattr(Models, "counter", exact)
    async with conversing(tmp_path, fake) as talk:
        for number in range(3):
            admitted = await talk.say(f"question {number}")
            request = render_call(admitted.plan, (), with_tools=True, finalize=False, counter=admitted.counter)
            adds = 100 + 4 * len(request.messages)
            seen = Observation(
                admitted.scope, new_id(), request.digest, request.text_tokens, request.spare_tokens, request.units,
                request.text_tokens + adds, None, None, True, talk.clock.now(),
            )
            await talk.database.run(lambda conn, seen=seen: add_observation(conn, seen))
        before = (await preview(talk).of(talk.conversation_id)).projection
        learnt = TemplateOverhead(108, 4, 16, 16)
        await talk.database.run(lambda conn: put_overhead(conn, admitted.scope, learnt, talk.clock.now()))
        after = (await preview(talk).of(talk.conversation_id)).projection
        assert before is not None and after is not None
        assert before.error_tokens > 30 >= after.error_tokens
        empty = await talk.admission.admit(await talk.begin("."))
        truth = empty.plan.totals.text + 100 + 4 * (len(empty.plan.turns) * 2 + 2)
        assert abs(after.fixed_context_tokens - truth) <= after.error_tokens + 4
        assert after.safe_user_tokens > before.safe_user_tokens
