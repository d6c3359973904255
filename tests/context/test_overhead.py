"""What a chat template adds is learnt from reports, and no bound ever falls below the truth."""

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_builder.context.compiler import compile_plan, render_call
from agent_builder.context.costs import message_cost
from agent_builder.context.overhead import Seen, learn, without_tools
from agent_builder.context.results import completed_bundle
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.errors import ModelContextLimit
from agent_builder.protocol.limits import CALIBRATION_SAMPLES
from agent_builder.protocol.messages import Exchange
from agent_builder.protocol.request import START_OVERHEAD, RenderedRequest, TemplateOverhead
from tests.support.plans import EXACT_COUNTER, Talk, a_call, a_model, inputs, turn_steps

QWEN = TemplateOverhead(request=100, message=4, call=7, result=5)


@dataclass(frozen=True)
class Template:
    """A simulated chat template. `seams`: it takes some of the spare tokens of each message, always the same ones. `trims`: blank
    ends of a text are left out. `joins`: a neighbour of the same role adds nothing of its own. `hides`: calls beside words are
    left out, and without tools all calls and results. `thought`: tokens for each answer behind the user's last words."""

    adds: TemplateOverhead = QWEN
    seams: bool = False
    trims: bool = False
    joins: bool = False
    hides: bool = False
    thought: int = 0

    def tokens(self, request: RenderedRequest) -> int:
        """What a provider reports for it."""
        last_words = max(index for index, one in enumerate(request.messages) if one["role"] == "user")
        total = request.prefix_tokens[0] + self.adds.request
        for index, message in enumerate(request.messages):
            if self.hides and "tool_calls" in message and (message["content"] or not request.tools):
                message = {name: value for name, value in message.items() if name != "tool_calls"}
            if self.hides and message["role"] == "tool" and not request.tools:
                continue
            cost = message_cost(message, EXACT_COUNTER)
            total += cost.text + self.adds.of(cost.units)
            if self.seams:
                total += int(digest_of(message)[:8], 16) % (cost.spare + 1)
            if self.trims:
                text = str(message["content"])
                total -= EXACT_COUNTER.count(text) - EXACT_COUNTER.count(text.strip())
            if index > last_words and message["role"] == "assistant":
                total += self.thought
        if self.joins:
            total -= sum(self.saved(one) for before, one in pairwise(request.messages) if before["role"] == one["role"])
        return total

    def saved(self, message: dict) -> int:
        return self.adds.result if message["role"] == "tool" else self.adds.message


class Scope:
    """What is known of one scope, with its newest observations."""

    def __init__(self) -> None:
        self.known = START_OVERHEAD
        self.seen: list[Seen] = []

    def report(self, request: RenderedRequest, observed: int) -> TemplateOverhead:
        self.known = learn(self.known, request, observed, self.seen)
        self.seen = [Seen(request.digest, request.text_tokens, request.units, observed), *self.seen][:CALIBRATION_SAMPLES]
        return self.known


def bound(request: RenderedRequest, overhead: TemplateOverhead) -> int:
    return request.text_tokens + request.spare_tokens + overhead.of(request.units) + overhead.request


def falls(before: TemplateOverhead, after: TemplateOverhead) -> bool:
    return all(getattr(after, kind) <= getattr(before, kind) for kind in ("request", "message", "call", "result"))


def talked(scope: Scope, template: Template, *turns: tuple[str, list[Exchange], str], tools: bool = True) -> TemplateOverhead:
    """A Conversation of Turns (message, steps, answer) whose every request is reported."""
    history = ()
    for number, (text, steps, answer) in enumerate(turns):
        counter = replace(EXACT_COUNTER, overhead=scope.known)
        plan = compile_plan(inputs(a_model(32768, tools=tools), text, history=history), counter)
        for done in range(len(steps) + 1):
            request = render_call(plan, steps[:done], with_tools=True, finalize=False, counter=counter)
            scope.report(request, template.tokens(request))
        history += (completed_bundle(f"turn-{number}", text, plan.preface, steps, answer, finalized=False),)
    return scope.known


PLAIN = [(f"question {number}", [], f"answer {number}") for number in range(4)]


overheads = st.builds(TemplateOverhead, st.integers(0, 256), st.integers(0, 16), st.integers(0, 16), st.integers(0, 16))
templates = st.builds(Template, overheads, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@settings(max_examples=80, deadline=None)
@given(script=st.lists(turn_steps, min_size=2, max_size=10), template=templates)
def test_no_bound_falls_below_the_truth(script, template):
    """Whole Conversations with tools, corrections, compaction and changes of the model."""
    talk, scopes, requests = Talk(EXACT_COUNTER), defaultdict(Scope), defaultdict(list)
    for step in script:
        scope = scopes[step["model"]]
        talk.counter = replace(EXACT_COUNTER, overhead=scope.known)
        try:
            _, _, rendered = talk.turn(**step)
        except ModelContextLimit:
            continue
        for request in rendered:
            requests[step["model"]].append(request)
            assert template.tokens(request) <= request.admission_tokens
            before = scope.known
            assert falls(before, scope.report(request, template.tokens(request)))
    for model, scope in scopes.items():
        assert all(template.tokens(request) <= bound(request, scope.known) for request in requests[model])


def test_a_few_plain_turns_teach_what_a_template_adds():
    known = talked(Scope(), Template(), *PLAIN)
    assert known == TemplateOverhead(request=100 + 2 * 4, message=4, call=16, result=16)


@settings(max_examples=30, deadline=None)
@given(overheads)
def test_what_is_learnt_from_plain_turns_is_the_truth_but_for_seams(adds):
    known = talked(Scope(), Template(adds, seams=True), *PLAIN, tools=False)
    assert adds.message <= known.message <= min(16, adds.message + 2)
    assert adds.request <= known.request <= min(256, adds.request + 2 * (adds.message + 2))


def test_a_call_and_its_result_are_bounded_by_all_that_came_with_them():
    known = talked(Scope(), Template(TemplateOverhead(90, 3, 4, 2)), *PLAIN, ("read", [a_call()], "done"))
    assert (known.message, known.call, known.result) == (3, 3 + 4 + 2, 3 + 4 + 2)


def test_a_report_above_the_admitted_bound_begins_anew():
    scope, worse = Scope(), Template(replace(QWEN, message=8))
    talked(scope, Template(), *PLAIN, tools=False)
    assert scope.known.message == 4
    learnt = replace(EXACT_COUNTER, overhead=scope.known)
    history = (completed_bundle("t", "a", "", [Exchange(text="x", correction="y")] * 12, "b", finalized=False),)
    plan = compile_plan(inputs(a_model(32768, tools=False), history=history), learnt)
    request = render_call(plan, (), with_tools=True, finalize=False, counter=learnt)
    assert worse.tokens(request) > request.admission_tokens
    assert scope.report(request, worse.tokens(request)) == START_OVERHEAD
    assert talked(scope, worse, *PLAIN, tools=False).message == 8


@pytest.mark.parametrize("extra", [0, 1])
def test_the_bound_itself_is_no_violation(extra):
    request = render_call(compile_plan(inputs(), EXACT_COUNTER), (), with_tools=True, finalize=False, counter=EXACT_COUNTER)
    known = TemplateOverhead(10, 4, 4, 4)
    assert learn(known, request, request.admission_tokens + extra, ()) == (START_OVERHEAD if extra else known)


@pytest.mark.parametrize(("text", "answer"), [("one\n", "answer"), (" one", "answer"), ("one", "answer\n\n"), ("one", "\tanswer")])
def test_texts_with_blank_ends_teach_nothing(text, answer):
    """A template that trims them would look cheaper than it is."""
    scope = Scope()
    known = talked(scope, Template(trims=True), ("first", [], answer), (text, [], "bye"))
    assert known == replace(START_OVERHEAD, request=100 + 2 * 4)


def test_a_first_message_with_blank_ends_teaches_nothing_of_the_request():
    assert talked(Scope(), Template(trims=True), ("first" + "\n" * 60, [], "answer")) == START_OVERHEAD


@pytest.mark.parametrize(("joined", "message"), [
    ([Exchange(text="x", correction="y")], 4),
    ([Exchange(text="x", correction="y"), Exchange(correction="z")], 16),
    ([Exchange(correction="z")], 16),
])
def test_messages_that_a_template_joins_teach_nothing(joined, message):
    scope = Scope()
    plan = compile_plan(inputs(), EXACT_COUNTER)
    for steps in ([], joined):
        request = render_call(plan, steps, with_tools=True, finalize=False, counter=EXACT_COUNTER)
        scope.report(request, Template(joins=True).tokens(request))
    assert scope.known.message == message


@pytest.mark.parametrize(("words", "tools", "call"), [("", True, 16 - 1), ("I look.", True, 16), ("", False, 16)])
def test_calls_that_a_template_may_leave_out_teach_nothing(words, tools, call):
    step = a_call().model_copy(update={"text": words})
    template = Template(TemplateOverhead(90, 6, 6, 3), hides=True)
    known = talked(Scope(), template, ("one", [step], "a"), *[("x", [], "y")] * 3, tools=tools)
    assert (known.message, known.call) == (6, call)


def test_what_a_template_adds_only_behind_the_last_words_is_not_taken_off_again():
    """An empty thought stands before each answer of the Turn that goes on, and before none of an earlier one."""
    known = talked(Scope(), Template(thought=4), ("read", [a_call(), a_call("call_2")], "done"), ("next", [], "bye"))
    assert known.message >= 4
    assert known.call + known.message + known.result >= 4 + 7 + 5 + 4


@pytest.mark.parametrize("missing", [0, 1])
def test_a_report_that_may_leave_out_cached_tokens_teaches_nothing(missing):
    request = render_call(compile_plan(inputs(), EXACT_COUNTER), (), with_tools=True, finalize=False, counter=EXACT_COUNTER)
    known = learn(START_OVERHEAD, request, request.text_tokens + len(request.messages) - missing, ())
    assert known.request == (256 if missing else len(request.messages))


@pytest.mark.parametrize(("grown", "message"), [(8, 4), (7, 4), (6, 3), (0, 0), (-1, 16)])
def test_growth_is_shared_and_rounded_up_and_shrinking_teaches_nothing(grown, message):
    scope = Scope()
    talked(scope, Template(), *PLAIN[:1])
    (first,), request = scope.seen, second_request()
    observed = request.text_tokens + first.observed - first.text + grown
    assert learn(START_OVERHEAD, request, observed, scope.seen).message == message


def second_request() -> RenderedRequest:
    """Of PLAIN."""
    first = completed_bundle("turn-0", "question 0", "", [], "answer 0", finalized=False)
    plan = compile_plan(inputs(a_model(32768), "question 1", history=(first,)), EXACT_COUNTER)
    return render_call(plan, (), with_tools=True, finalize=False, counter=EXACT_COUNTER)


def test_another_conversation_is_no_growth():
    scope = Scope()
    talked(scope, Template(), ("one thing", [], "answer"))
    assert talked(scope, Template(), ("another thing", [], "answer")).message == 16


def test_a_request_without_its_tools_has_the_whole_reserve():
    learnt = replace(EXACT_COUNTER, overhead=TemplateOverhead(20, 4, 4, 4))
    assert without_tools(learnt).overhead == TemplateOverhead(256, 4, 4, 4)
    plan = compile_plan(inputs(), learnt)
    offered, bare = (render_call(plan, (), with_tools=tools, finalize=False, counter=learnt) for tools in (True, False))
    assert offered.admission_tokens == bound(offered, learnt.overhead)
    assert bare.admission_tokens == bound(bare, replace(learnt.overhead, request=256))


def test_what_is_learnt_makes_room():
    history = tuple(completed_bundle(f"t{number}", f"q{number}", "", [], "word " * 10, finalized=False) for number in range(80))
    learnt = replace(EXACT_COUNTER, overhead=talked(Scope(), Template(), *PLAIN))
    before, after = (compile_plan(inputs(a_model(8192), history=history), counter).history.included for counter in (EXACT_COUNTER, learnt))
    assert after > before
