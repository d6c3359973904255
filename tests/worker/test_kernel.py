import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.protocol.frames import (
    CallProposal,
    Failed,
    Final,
    HostFrame,
    LocalResult,
    ModelCall,
    ModelDone,
    ModelFailed,
    ModelText,
    Reference,
    Start,
    ToolCall,
    ToolResult,
    UserText,
    WorkerFrame,
)
from agent_builder.protocol.limits import (
    CONTENT_FRAMES,
    IPC_TEXT_BYTES,
    MESSAGE_BYTES,
    MODEL_CALLS_MAX,
    RAW_STREAM_BYTES,
    TOOL_CALLS_MAX,
)
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.worker.kernel import HarnessKernel

ID = "00000000-0000-4000-8000-000000000001"
PLAN = Reference(ID, "a" * 64)
TOOLSET = Reference(ID, "b" * 64)
READ, ECHO = "file/read_text", "builtin/echo"
MESSAGE = UserText("say hi", last=True)
LOOP, BROKEN = [Failed("model_tool_loop")], [Failed("worker_protocol")]


def start(model_calls: int = 4, tool_calls: int = 2, several: bool = False, tools: tuple[str, ...] = (READ, ECHO)) -> Start:
    return Start(ID, ID, ID, ID, list(tools), PLAN, TOOLSET, model_calls, tool_calls, several)


def read(call_id: str, path: str = "notes.md") -> CallProposal:
    return CallProposal(call_id, READ, {"path": path})


def echo(call_id: str, text: str) -> CallProposal:
    return CallProposal(call_id, ECHO, {"text": text})


def asks(*call_ids: str) -> list[WorkerFrame]:
    return [ModelCall(PLAN, TOOLSET, list(call_ids))]


def calls(number: int, *proposals: CallProposal) -> ModelDone:
    return ModelDone(number, list(proposals), False)


def answer(number: int) -> ModelDone:
    return ModelDone(number, [], False)


def correction(number: int) -> ModelDone:
    return ModelDone(number, [], True)


def play(*frames: HostFrame) -> list[list[WorkerFrame]]:
    kernel = HarnessKernel(CATALOG)
    return [kernel.step(frame) for frame in frames]


def last(*frames: HostFrame) -> list[WorkerFrame]:
    return play(*frames)[-1]


def test_a_plain_answer_is_one_model_call_and_a_final() -> None:
    assert play(start(), MESSAGE, ModelText(1, "he"), ModelText(1, "llo"), answer(1)) == [[], asks(), [], [], [Final(1)]]


def test_a_long_message_arrives_in_parts_and_the_loop_begins_after_the_last() -> None:
    assert play(start(), UserText("a", False), UserText("b", False), UserText("c", True)) == [[], [], [], asks()]


def test_a_tool_call_is_asked_of_the_host_and_its_result_named_to_the_model() -> None:
    assert play(start(), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok"), answer(2)) == [
        [], asks(), [ToolCall("c1", READ, {"path": "notes.md"})], asks("c1"), [Final(2)],
    ]


@pytest.mark.parametrize("outcome", ["refused", "denied", "failed", "outcome_unknown"])
def test_the_model_goes_on_whatever_came_of_a_call(outcome: str) -> None:
    assert last(start(), MESSAGE, calls(1, read("c1")), ToolResult("c1", outcome)) == asks("c1")


def test_two_calls_one_after_the_other_are_within_the_default_budget() -> None:
    frames = (start(), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok"), calls(2, read("c2")), ToolResult("c2", "ok"), answer(3))
    assert play(*frames)[3:] == [asks("c1"), [ToolCall("c2", READ, {"path": "notes.md"})], asks("c2"), [Final(3)]]


def test_echo_is_run_by_the_worker_and_recorded_by_the_host() -> None:
    assert play(start(), MESSAGE, calls(1, echo("c1", "hi")), ToolResult("c1", "ok")) == [
        [], asks(), [LocalResult("c1", "hi")], asks("c1"),
    ]


def test_several_calls_run_in_order_where_that_is_agreed() -> None:
    frames = (start(several=True), MESSAGE, calls(1, read("c1"), echo("c2", "x")), ToolResult("c1", "ok"), ToolResult("c2", "ok"))
    assert play(*frames)[2:] == [[ToolCall("c1", READ, {"path": "notes.md"})], [LocalResult("c2", "x")], asks("c1", "c2")]


def test_parallel_calls_are_a_loop_where_that_is_not_agreed() -> None:
    assert last(start(), MESSAGE, calls(1, read("c1"), read("c2"))) == LOOP


def test_a_call_past_the_tool_budget_is_a_loop() -> None:
    within = (start(tool_calls=1), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok"))
    assert last(*within) == asks("c1")
    assert last(*within, calls(2, read("c2"))) == LOOP


def test_several_calls_past_the_tool_budget_are_a_loop_and_none_runs() -> None:
    three = [read("c1"), read("c2"), read("c3")]
    assert last(start(tool_calls=3, several=True), MESSAGE, calls(1, *three)) == [ToolCall("c1", READ, {"path": "notes.md"})]
    assert last(start(tool_calls=2, several=True), MESSAGE, calls(1, *three)) == LOOP


def test_a_model_call_past_the_budget_is_a_loop() -> None:
    assert last(start(model_calls=2), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok")) == asks("c1")
    assert last(start(model_calls=1), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok")) == LOOP


def test_a_call_id_used_twice_is_a_loop() -> None:
    assert last(start(), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok"), calls(2, read("c1", "other.md"))) == LOOP
    assert last(start(several=True), MESSAGE, calls(1, read("c1"), read("c1"))) == LOOP


@pytest.mark.parametrize(
    "proposal",
    [
        CallProposal("c1", "file/delete", {"path": "a"}),
        CallProposal("c1", "exec/run", {"command": "true"}),
        CallProposal("c1", READ, {}),
        CallProposal("c1", READ, {"path": 1}),
        CallProposal("c1", READ, {"path": "a", "extra": 1}),
        CallProposal("c1", READ, {"path": "\ud800"}),
    ],
    ids=["unknown", "not offered", "missing argument", "wrong type", "unknown argument", "no Unicode"],
)
def test_a_call_that_the_sealed_catalog_does_not_allow_is_never_sent(proposal: CallProposal) -> None:
    assert last(start(), MESSAGE, ModelDone(1, [proposal], False)) == LOOP


def test_a_correction_asks_the_model_again() -> None:
    assert play(start(), MESSAGE, correction(1), answer(2))[2:] == [asks(), [Final(2)]]
    assert last(start(model_calls=1), MESSAGE, correction(1)) == LOOP


def test_a_correction_after_results_names_none_of_them_again() -> None:
    assert last(start(), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok"), correction(2)) == asks()


def test_a_correction_carries_no_calls() -> None:
    assert last(start(), MESSAGE, ModelDone(1, [read("c1")], True)) == BROKEN


def test_a_failed_model_call_ends_the_loop_with_its_code() -> None:
    assert last(start(), MESSAGE, ModelFailed(1, "model_unavailable")) == [Failed("model_unavailable")]


def test_a_repeated_provider_call_has_a_higher_number() -> None:
    assert play(start(), MESSAGE, ModelText(2, "hi"), answer(2))[2:] == [[], [Final(2)]]
    assert last(start(), MESSAGE, ModelText(1, "hi"), answer(2)) == BROKEN
    assert last(start(), MESSAGE, calls(2, read("c1")), ToolResult("c1", "ok"), answer(2)) == BROKEN


@pytest.mark.parametrize(
    "frames",
    [
        (MESSAGE,),
        (start(), start()),
        (start(), MESSAGE, MESSAGE),
        (start(), ModelText(1, "hi")),
        (start(), MESSAGE, ToolResult("c1", "ok")),
        (start(), MESSAGE, calls(1, read("c1")), ToolResult("c2", "ok")),
        (start(), MESSAGE, calls(1, read("c1")), ModelText(2, "hi")),
        (start(), MESSAGE, ModelText(0, "hi")),
        (start(), MESSAGE, calls(1, read("c1")), ToolResult("c1", "ok"), ToolResult("c1", "ok")),
        (start(several=True), MESSAGE, calls(1, read("c1"), read("c2")), ToolResult("c2", "ok")),
        (start(tools=("file/delete",)),),
        (start(model_calls=0),),
        (start(model_calls=MODEL_CALLS_MAX + 1),),
        (start(tool_calls=TOOL_CALLS_MAX + 1),),
    ],
)
def test_a_frame_out_of_its_turn_or_bounds_breaks_the_protocol(frames: tuple[HostFrame, ...]) -> None:
    *before, found = play(*frames)
    assert found == BROKEN
    assert not any(isinstance(frame, Failed) for sent in before for frame in sent)


def test_the_highest_budgets_are_accepted() -> None:
    assert last(start(model_calls=MODEL_CALLS_MAX, tool_calls=TOOL_CALLS_MAX), MESSAGE) == asks()


def test_the_message_is_bounded() -> None:
    full = [UserText("a" * IPC_TEXT_BYTES, False)] * (MESSAGE_BYTES // IPC_TEXT_BYTES)
    assert last(start(), *full, UserText("", True)) == asks()
    assert last(start(), *full, UserText("a", True)) == BROKEN


def test_the_frames_of_one_model_call_are_bounded() -> None:
    texts = [ModelText(1, "a")] * CONTENT_FRAMES
    assert last(start(), MESSAGE, *texts) == []
    assert last(start(), MESSAGE, *texts, ModelText(1, "a")) == BROKEN


def test_the_bytes_of_one_model_call_are_bounded() -> None:
    texts = [ModelText(1, "a" * IPC_TEXT_BYTES)] * (RAW_STREAM_BYTES // IPC_TEXT_BYTES)
    assert last(start(), MESSAGE, *texts) == []
    assert last(start(), MESSAGE, *texts, ModelText(1, "a")) == BROKEN


def test_the_bounds_begin_anew_with_each_model_call() -> None:
    texts = [ModelText(1, "a")] * CONTENT_FRAMES
    assert last(start(), MESSAGE, *texts, correction(1), ModelText(2, "a")) == []


def test_after_the_end_every_frame_is_answered_with_nothing() -> None:
    kernel = HarnessKernel(CATALOG)
    for frame in (start(), MESSAGE, answer(1)):
        kernel.step(frame)
    assert kernel.finished
    assert [kernel.step(frame) for frame in (answer(1), start(), ToolResult("c1", "ok"))] == [[], [], []]


CALL_IDS = st.sampled_from(["c1", "c2", "c3"])
PROPOSALS = st.builds(
    CallProposal, CALL_IDS, st.sampled_from([READ, ECHO, "exec/run", "nothing"]),
    st.sampled_from([{"path": "a"}, {"text": "x"}, {"text": 1}, {}, {"path": "\ud800"}]),
)
NUMBERS = st.integers(0, 4)
FRAMES: st.SearchStrategy[HostFrame] = st.one_of(
    st.builds(start, st.integers(0, 40), st.integers(0, 40), st.booleans()),
    st.builds(UserText, st.text(max_size=5), st.booleans()),
    st.builds(ModelText, NUMBERS, st.text(max_size=5)),
    st.builds(ModelDone, NUMBERS, st.lists(PROPOSALS, max_size=3), st.booleans()),
    st.builds(ModelFailed, NUMBERS, st.just("model_busy")),
    st.builds(ToolResult, CALL_IDS, st.sampled_from(["ok", "denied"])),
)


@given(st.lists(FRAMES, max_size=30))
def test_no_frames_in_any_order_crash_the_kernel_or_give_two_ends(frames: list[HostFrame]) -> None:
    check_any_run([start(5, 5, True), MESSAGE, *frames])
    check_any_run(frames)


def check_any_run(frames: list[HostFrame]) -> None:
    sent = [frame for frames_sent in play(*frames) for frame in frames_sent]
    ends = [frame for frame in sent if isinstance(frame, (Final, Failed))]
    asked = [frame.call_id for frame in sent if isinstance(frame, (ToolCall, LocalResult))]
    assert len(ends) <= 1
    assert not ends or sent[-1] is ends[0]
    assert len(asked) == len(set(asked))
    assert sum(isinstance(frame, ModelCall) for frame in sent) <= MODEL_CALLS_MAX
