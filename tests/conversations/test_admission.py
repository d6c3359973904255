"""From a submitted Turn to the proof that it may run."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_builder.context.compiler import render_call
from agent_builder.conversations import planning
from agent_builder.conversations.planning import COMPACTED_THROUGH
from agent_builder.llm.models import Models
from agent_builder.protocol.errors import InstructionsRefused, ModelContextLimit, ModelContextTooSlow, ModelNotFound
from agent_builder.protocol.messages import CompletedTurnContext
from agent_builder.protocol.request import START_OVERHEAD, TemplateOverhead
from agent_builder.storage.boundaries import BoundaryConflict, head_boundary
from agent_builder.storage.calibration import put_overhead
from agent_builder.storage.turns import bundles
from tests.support.conversing import Conversing, conversing
from tests.support.fake_ollama import FakeOllama
from tests.support.plans import EXACT_COUNTER, an_attachment

FILLER = "word " * 400


def content(admitted, index: int = 0) -> str:
    """Of one message of the Turn's first request."""
    return str(first_request(admitted).messages[index]["content"])


def first_request(admitted):
    return render_call(admitted.plan, (), with_tools=True, finalize=False, counter=admitted.counter)


async def test_an_admitted_turn_tells_its_plan_and_budgets(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        admitted = await talk.admission.admit(await talk.begin("say hi"))
        plan, started = admitted.plan, admitted.started
        assert (started.plan_id, started.plan_digest, started.sections) == (plan.plan_id, plan.digest, len(plan.sections))
        assert (started.model_id, started.model_calls, started.tool_calls, started.run_s) == ("test", 4, 2, 240)
        assert (started.window, started.input_budget, started.admission_tokens) == (32768, 28672, plan.admission.tokens)
        assert (started.history_included, started.history_omitted, started.history_collapsed) == (0, 0, 0)
        assert admitted.toolset.digest == started.toolset_digest == plan.toolset.digest
        assert admitted.counter.name == "utf8-bytes-upper-bound-v1"
        assert content(admitted, -1) == "say hi"


async def test_completed_turns_are_history_and_failed_ones_are_not(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        await talk.say("first", "one")
        failed = await talk.begin("second")
        await talk.fail(failed.turn)
        admitted = await talk.admit("third")
        roles = [str(m.message["content"]) for t in admitted.plan.turns for m in t.messages]
        assert roles == ["first", "one"]


async def test_instructions_are_read_anew_for_each_turn(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        file = talk.workspace / "agent-builder.md"
        file.write_text("Always end with 喵-7731.")
        file.chmod(0o600)
        assert "Always end with 喵-7731." in content(await talk.say())
        file.write_text("Never end.")
        assert "Never end." in content(await talk.say())
        file.unlink()
        assert "agent-builder.md" not in content(await talk.say())


async def test_instructions_above_a_quarter_of_the_budget_refuse_and_name_the_file(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        file = talk.workspace / "agent-builder.md"
        file.write_text("i" * 7169)
        file.chmod(0o600)
        with pytest.raises(InstructionsRefused, match=r"agent-builder\.md takes 7169 tokens"):
            await talk.admission.admit(await talk.begin())


async def test_attachments_stand_behind_the_message_and_again_in_the_next_turn(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        first = await talk.say("read it", attachments=(an_attachment("the word is heron"),))
        assert "the word is heron" in first.preface
        assert content(first, -1) == f"read it\n\n{first.preface}"
        second = await talk.admit("next")
        assert content(second, 1) == content(first, -1)


async def test_a_message_too_large_for_the_window_is_refused_with_the_numbers(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        with pytest.raises(ModelContextLimit, match=r"The request needs \d+ tokens.*24320 are free"):
            await talk.admission.admit(await talk.begin("m" * 28672))


async def test_an_unknown_model_ends_the_turn(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        with pytest.raises(ModelNotFound):
            await talk.admission.admit(await talk.begin(model_id="gone"))


async def test_another_model_plans_anew_from_the_whole_transcript(tmp_path: Path, fake: FakeOllama):
    fake.add_model("small", ("completion",), 8192, "cd" * 32)
    async with conversing(tmp_path, fake, semantic_summary=False) as talk:
        profile = replace(talk.models.profile(None), model_id="small", provider_model="small", tools=False)
    second = tmp_path / "second"
    second.mkdir()
    async with conversing(second, fake, profile, semantic_summary=False) as talk:
        for number in range(6):
            await talk.say(f"question {number}", FILLER)
        small = await talk.say("and now?", model_id="small")
        large = await talk.admit("and back?")
        assert small.toolset.specs == ()
        assert small.plan.history.included < 6
        assert large.plan.history.included == 7
        assert small.scope != large.scope


async def test_a_prompt_that_cannot_be_evaluated_in_time_is_refused_with_the_numbers(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        talk.reading_speed(10)
        with pytest.raises(ModelContextTooSlow, match=r"about \d+ s to evaluate \d+ tokens; 2(39|40) s are left. Compact"):
            await talk.admission.admit(await talk.begin("m" * 4000))


async def test_a_prompt_whose_beginning_is_already_evaluated_is_not_too_slow(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        first = await talk.say("m" * 4000)
        talk.models.prefill.remember(first.model, first_request(first))
        talk.reading_speed(10)
        assert (await talk.admit("next")).plan.history.included == 1


async def test_the_boundary_follows_the_one_before_it(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        first = await talk.say("one")
        second = await talk.say("two")
        assert (first.boundary.previous_digest, second.boundary.previous_digest) == (None, first.boundary.digest)
        assert second.boundary.fields == {
            "revision": second.boundary.fields["revision"], "model": "test", "model_digest": fake.digest, "plan": second.plan.digest,
            "instructions": second.plan.head.digest, "history": second.plan.history_digest, "toolset": second.toolset.digest,
            "renderer": "ollama-chat-v1", "scope": second.scope, COMPACTED_THROUGH: "",
        }
        assert "one" not in str(second.boundary.fields.values())
        head = await talk.database.read(lambda conn: head_boundary(conn, talk.conversation_id))
        assert head == second.boundary


async def test_a_boundary_planned_on_an_older_head_is_not_committed(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        late = await talk.admission.admit(await talk.begin("one"))
        await talk.fail(late.turn)
        await talk.say("two")
        third = await talk.begin("three")
        with pytest.raises(BoundaryConflict):
            await talk.commit(replace(late, turn=third.turn, boundary=replace(late.boundary, turn_id=third.turn.turn_id)))


async def test_the_operators_compaction_holds_in_later_turns_and_after_a_restart(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake, semantic_summary=False) as talk:
        for number in range(6):
            await talk.say(f"question {number}", FILLER)
        compacted = await talk.say("shorter", compact=True)
        assert 0 < compacted.plan.start < 6
        left = (await stored(talk))[compacted.plan.start - 1]
        assert compacted.boundary.fields[COMPACTED_THROUGH] == left.turn_id
        assert (await talk.say("next")).plan.start == compacted.plan.start
        assert (await talk.restarted(semantic_summary=False).say("later")).plan.start == compacted.plan.start


async def stored(talk: Conversing) -> list[CompletedTurnContext]:
    return await talk.database.read(lambda conn: bundles(conn, talk.conversation_id))


async def test_planning_never_shortens_what_is_stored(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake, window_cap=8192) as talk:
        for number in range(12):
            await talk.say(f"question {number}", FILLER[:600])
        before = await stored(talk)
        assert (await talk.say("once more", compact=True)).plan.start > 0
        assert (await stored(talk))[:12] == before


async def test_the_plan_is_the_same_before_and_after_a_restart(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        first = await talk.say("one")
        await talk.observe(first.scope, *[(1000, 1200)] * 3)
        run = await talk.begin("two")
        assert (await talk.admission.admit(run)).plan.digest == (await talk.restarted().admission.admit(run)).plan.digest


async def test_what_was_learnt_of_the_template_admits_more_history_also_after_a_restart(
    tmp_path: Path, fake: FakeOllama, monkeypatch: pytest.MonkeyPatch
):
    async def exact(models, model):
        return EXACT_COUNTER

    monkeypatch.setattr(Models, "counter", exact)
    async with conversing(tmp_path, fake, semantic_summary=False, window_cap=8192) as talk:
        for number in range(80):
            before = await talk.say(f"q{number}", "word " * 10)
        assert before.counter.overhead == START_OVERHEAD
        assert before.plan.history.included < 79
        learnt = TemplateOverhead(100, 4, 16, 16)
        await talk.database.run(lambda conn: put_overhead(conn, before.scope, learnt, talk.clock.now()))
        for admission in (talk, talk.restarted(semantic_summary=False)):
            run = await admission.begin("and now?")
            after = await admission.admission.admit(run)
            await admission.fail(run.turn)
            assert after.counter.overhead == learnt
            assert after.plan.history.included == 80
            assert first_request(after).admission_tokens == after.plan.admission.tokens


async def test_a_git_status_moves_the_history_alike_before_and_after_a_restart(
    tmp_path: Path, fake: FakeOllama, monkeypatch: pytest.MonkeyPatch
):
    """What was shown is in the stored Turns, so that replaying them decides as it was decided then."""
    starts, shown = [], []
    async with conversing(tmp_path, fake, semantic_summary=False) as talk:
        for number, lines in enumerate([1, 2, 2, 2, 1200, 1200, 1] * 3):
            monkeypatch.setattr(planning, "git_status", lambda *_, told=" M file.txt\n" * lines: asyncio.sleep(0, told))
            run = await talk.begin(f"question {number}")
            admitted = await talk.admission.admit(run)
            again = await talk.restarted(semantic_summary=False).admission.admit(run)
            assert again.plan.digest == admitted.plan.digest
            await talk.finish(await talk.commit(admitted), FILLER)
            starts.append(admitted.plan.start)
            shown.append("git status" in admitted.preface)
    assert starts == sorted(starts)
    assert 1 < len(set(starts)) <= 8
    assert shown[:7] == [True, True, False, False, True, False, True]
