"""Consecutive requests begin with the same bytes: what a provider has evaluated once it need not evaluate again."""

from dataclasses import replace
from datetime import date
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_builder.context.compiler import compile_plan, render_call
from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.context.inputs import Summary
from agent_builder.protocol.errors import ModelContextLimit
from agent_builder.protocol.messages import CompletedTurnContext
from tests.support.plans import COUNTERS, EXACT_COUNTER, MODELS, Talk, a_call, a_model, inputs, turn_steps


def begins_with(longer, shorter) -> bool:
    return longer.tools == shorter.tools and longer.messages[: len(shorter.messages)] == shorter.messages


def past(request, plan) -> int:
    """How many messages stand before this Turn's own."""
    return request.messages.index(plan.user.message)


@settings(max_examples=60, deadline=None)
@given(script=st.lists(turn_steps, min_size=2, max_size=12), counter=st.sampled_from(COUNTERS))
def test_a_request_continues_the_one_before_it_unless_turns_had_to_leave(script, counter):
    talk, last = Talk(counter), {}
    for step in script:
        try:
            model, plan, requests = talk.turn(**step)
        except ModelContextLimit:
            continue
        for earlier, later in pairwise(requests):
            if past(later, plan) == past(earlier, plan):
                assert begins_with(later, earlier)
        before = last.get(model.model_id)
        if before is not None:
            start, whole, request = before
            if start == plan.start and whole:
                assert begins_with(requests[0], request)
            assert requests[0].messages[0] == request.messages[0]
        whole = past(requests[-1], plan) == past(requests[0], plan)
        last[model.model_id] = (plan.start, whole, requests[-1])


def test_the_answer_follows_directly_in_the_next_turns_request():
    talk = Talk(EXACT_COUNTER)
    step = {"git": " M a.txt", "attached": True, "model": 1, "compact": False, "finalize": True}
    _, _, first = talk.turn(text="one", steps=[a_call()], answer="first answer", **step)
    _, _, second = talk.turn(text="two", steps=[], answer="second answer", **step)
    assert second[0].messages[len(first[-1].messages)] == {"role": "assistant", "content": "first answer"}
    assert begins_with(second[0], first[-1])


def starts_of(turns: int, window: int, counter, size: int) -> list[int]:
    talk, found = Talk(counter), []
    for number in range(turns):
        _, plan, _ = talk.turn(text=f"question {number}", steps=[], git=None, attached=False, model=0, compact=False, finalize=False,
                               answer="word " * size)
        found.append(plan.start)
    return found


def test_the_history_begins_at_the_same_turn_for_several_turns():
    starts = starts_of(60, 8192, EXACT_COUNTER, 120)
    moves = [index for index in range(1, 60) if starts[index] != starts[index - 1]]
    assert len(moves) >= 2
    assert starts == sorted(starts)
    assert min(later - earlier for earlier, later in pairwise(moves)) >= 4


git_turns = st.lists(
    st.tuples(st.sampled_from(["next", "go on, please", "what does git say?"]), st.integers(0, 600), st.integers(1, 90)),
    min_size=30, max_size=50,
)
settled = st.lists(st.integers(1, 120), min_size=30, max_size=50)
STEADY = {"steps": [], "attached": False, "compact": False, "finalize": False}
SMALL_WINDOWS = [(EXACT_COUNTER, 0), (BYTES_COUNTER, 1)]


def told(script, counter=EXACT_COUNTER, model=0, **same):
    """(start, first request, last request) of each Turn. After each one a restart finds no Turn back that had left."""
    talk, found = Talk(counter), []
    for step in script:
        _, plan, requests = talk.turn(**STEADY, model=model, **same, **step)
        found.append((plan.start, requests[0], requests[-1]))
        again = compile_plan(inputs(MODELS[model], "next", history=stored(talk.history)), counter)
        assert again.start >= plan.start
    return found


def stored(history):
    """As it is read after a restart."""
    return tuple(CompletedTurnContext.model_validate_json(bundle.model_dump_json()) for bundle in history)


def moves_of(found) -> list[int]:
    for (start, _, before), (after, request, _) in pairwise(found):
        assert after >= start
        if after == start:
            assert begins_with(request, before)
    return [index for index, ((start, *_), (after, *_)) in enumerate(pairwise(found), 1) if after != start]


@settings(max_examples=20, deadline=None)
@given(lengths=settled, lines=st.sampled_from([1, 150, 1200]), known=st.sampled_from(SMALL_WINDOWS))
def test_an_unchanged_git_status_hardly_moves_the_beginning_of_the_history(lengths, lines, known):
    moves = moves_of(told([{"answer": "word " * words} for words in lengths], *known, text="next", git=" M file.txt\n" * lines))
    assert len(moves) <= len(lengths) // 4


@settings(max_examples=20, deadline=None)
@given(script=git_turns, known=st.sampled_from(SMALL_WINDOWS))
def test_a_changing_git_status_does_not_move_the_beginning_of_the_history_on_every_turn(script, known):
    steps = [{"text": text, "git": " M file.txt\n" * lines, "answer": "word " * words} for text, lines, words in script]
    assert len(moves_of(told(steps, *known))) <= len(script) // 3


def test_an_unchanged_large_git_status_leaves_past_turns_whole():
    found = told([{"answer": "word " * 120}] * 60, text="next", git=" M a name.txt\n" * 400)
    moves = moves_of(found)
    assert len(moves) >= 2
    assert min(later - earlier for earlier, later in pairwise(moves)) >= 3


def test_compaction_frees_down_to_about_half_of_the_budget():
    talk = Talk(EXACT_COUNTER)
    before = 0
    for number in range(40):
        _, plan, _ = talk.turn(text=f"question {number}", steps=[], git=None, attached=False, model=0, compact=False, finalize=False,
                               answer="word " * 120)
        if plan.start != before:
            assert plan.admission.tokens <= plan.input_budget // 2
        before = plan.start
    assert before > 0


def test_a_planned_start_does_not_depend_on_whether_a_summary_exists():
    talk = Talk(EXACT_COUNTER)
    for number in range(30):
        talk.turn(text=f"question {number}", steps=[], git=None, attached=False, model=0, compact=False, finalize=False, answer="word " * 120)
    without = inputs(MODELS[0], history=talk.history)
    plan = compile_plan(without, EXACT_COUNTER)
    with_summary = compile_plan(replace(without, summary=Summary(plan.start, "They spoke of words.")), EXACT_COUNTER)
    assert with_summary.start == plan.start > 0
    assert with_summary.turns == plan.turns
    assert "They spoke of words." in with_summary.note[0].message["content"]


def test_the_operators_compaction_lasts():
    talk = Talk(EXACT_COUNTER)
    step = {"steps": [], "git": None, "attached": False, "model": 1, "finalize": False, "answer": "word " * 50}
    for number in range(6):
        talk.turn(text=f"question {number}", compact=False, **step)
    _, compacted, first = talk.turn(text="shorter please", compact=True, **step)
    assert 0 < compacted.start < 6
    _, after, second = talk.turn(text="go on", compact=False, **step)
    assert after.start == compacted.start
    assert begins_with(second[0], first[-1])


def test_a_new_day_changes_only_the_end_of_the_system_message():
    today = inputs(a_model(32768), instructions="Be brief.")
    tomorrow = replace(today, today=date(2026, 3, 2))
    first, second = (compile_plan(one, EXACT_COUNTER).head.message["content"] for one in (today, tomorrow))
    assert first.replace("2026-03-01", "2026-03-02") == second
    assert first.index("2026-03-01") > len(first) - 40


def test_arguments_are_rendered_the_same_in_whatever_order_they_were_stored():
    plan = compile_plan(inputs(), EXACT_COUNTER)
    call = a_call().calls[0]
    one = call.model_copy(update={"arguments": {"path": "a", "max_lines": 3}})
    other = call.model_copy(update={"arguments": {"max_lines": 3, "path": "a"}})
    exchange = a_call()
    first, second = (
        render_call(plan, [exchange.model_copy(update={"calls": (call,)})], with_tools=True, finalize=False, counter=EXACT_COUNTER)
        for call in (one, other)
    )
    assert [list(c["function"]["arguments"]) for m in first.messages for c in m.get("tool_calls", ())] == [["max_lines", "path"]]
    assert repr(first.messages) == repr(second.messages)
