"""What one Run and its model may say to each other: the moves that the host decides, whatever the Worker thinks of them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import current_thread, main_thread

import pytest

from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.context.results import result_budget
from agent_builder.context.toolset import toolset_of
from agent_builder.llm.broker import ProposedCall
from agent_builder.protocol.errors import ModelEmptyAnswer, ModelTransport, RunError
from agent_builder.protocol.limits import (
    IPC_FRAME_BYTES,
    READ_BYTES,
    RECEIPT_BYTES,
    TOKENIZER_INLINE_BYTES,
    WRITE_BYTES,
)
from agent_builder.protocol.messages import Usage
from agent_builder.protocol.model_profile import Budgets
from tests.support.capability import put
from tests.support.piped_worker import Piped, behave
from tests.support.plans import a_model
from tests.support.run_bench import OFFERED, USAGE, Done, RunBench, proposed, run_bench


def faulty(name: str = "file_delete", tool_id: str = "", fault: str = "'file_delete' is not one of the tools") -> ProposedCall:
    return ProposedCall(tool_id, name, None, fault, False)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[RunBench]:
    async with run_bench(tmp_path) as made:
        yield made


async def play(bench: RunBench) -> Done:
    return await bench.run(Piped(behave))


def messages(bench: RunBench) -> list[tuple[str, str]]:
    """Role and content of the last request."""
    return [(str(one["role"]), str(one["content"])) for one in bench.model.requests[-1].rendered.messages]


async def test_a_remark_on_arguments_says_what_the_tool_takes(bench: RunBench) -> None:
    bench.model.calls(faulty("file_edit", "file/edit", "file_edit: old is missing"))
    await play(bench)
    role, text = messages(bench)[-1]
    assert role == "tool"
    assert text == (
        "This call was not executed: file_edit: old is missing. file_edit takes path, old, new. "
        "Call it again with valid arguments, or answer in plain words."
    )


async def test_a_remark_on_an_unknown_tool_names_those_that_there_are(bench: RunBench) -> None:
    bench.model.calls(faulty())
    await play(bench)
    assert messages(bench)[-1][1] == (
        "This call was not executed: 'file_delete' is not one of the tools. Tools: file_read_text, file_stat, file_glob, file_grep, "
        "file_edit, file_write, exec_run. Call one of them with valid arguments, or answer in plain words."
    )


async def test_a_model_without_tools_that_calls_one_is_told_that_there_are_none(bench: RunBench) -> None:
    bench.toolset = toolset_of(())
    bench.model.calls(faulty("file_read_text"))
    done = await play(bench)
    assert done.terminal == "run.completed"
    assert messages(bench)[-1][1] == "This call was not executed: there are no tools here. Answer in plain words."


async def test_a_call_without_a_name_has_one_in_the_transcript(bench: RunBench) -> None:
    bench.model.calls(faulty("", fault="'' is not one of the tools"))
    await play(bench)
    answer = next(one for one in bench.model.requests[-1].rendered.messages if one.get("tool_calls"))
    assert answer["tool_calls"][0]["function"]["name"] == "unknown"  # type: ignore[index]


async def test_parallel_calls_are_refused_before_any_of_them_is_looked_at(bench: RunBench) -> None:
    bench.model.calls(faulty(), proposed("file/stat", path="a"))
    assert (await play(bench)).code == "model_tool_loop"


@pytest.mark.parametrize(("calls", "end"), [(2, "run.completed"), (3, "run.failed")])
async def test_host_and_worker_agree_on_several_calls_within_and_past_the_budget(bench: RunBench, calls: int, end: str) -> None:
    bench.profile(Budgets(tool_calls=2), several_calls="in_order")
    bench.model.calls(*(proposed("file/stat", path=f"{number}") for number in range(calls)))
    done = await play(bench)
    assert done.terminal == end
    assert len(done.of("tool.call.finished")) == (2 if end == "run.completed" else 0)
    assert done.code in (None, "model_tool_loop")


async def test_a_correction_costs_one_call_of_the_budget_for_host_and_worker(bench: RunBench) -> None:
    bench.profile(Budgets(tool_calls=2), several_calls="in_order")
    bench.model.calls(faulty())
    bench.model.calls(proposed("file/stat", path="a"), proposed("file/stat", path="b"))
    done = await play(bench)
    assert (done.code, len(done.of("tool.call.started"))) == ("model_tool_loop", 0)


async def test_calls_that_no_frame_can_hold_are_a_loop_and_no_fault_of_ours(bench: RunBench) -> None:
    bench.profile(Budgets(tool_calls=32), several_calls="in_order")
    count = IPC_FRAME_BYTES // WRITE_BYTES + 1
    bench.model.calls(*(proposed("file/write", path=f"{number}.txt", content="x" * WRITE_BYTES) for number in range(count)))
    done = await play(bench)
    assert (done.code, done.of("tool.call.proposed")) == ("model_tool_loop", [])


async def test_a_result_that_the_window_has_no_room_for_is_shortened_and_does_not_count_as_read(bench: RunBench) -> None:
    bench.qualified = a_model(8192)
    put(bench.workspace, "a.md", "".join(f"line {number:03} abcdef\n" for number in range(READ_BYTES // 16)))
    bench.model.calls(proposed("file/read_text", path="a.md"))
    bench.model.calls(proposed("file/edit", path="a.md", old="line 255 abcdef", new="x"))
    bench.model.says("I saw a part only.")
    done = await play(bench)
    assert done.turn.assistant_text == "I saw a part only."
    shown = [text for role, text in messages(bench) if role == "tool"]
    assert "reason window_bound" in shown[0]
    assert "line 000" in shown[0] and "line 255" not in shown[0]
    assert [one.get("code") for one in done.of("tool.call.finished")] == [None, "not_read"]
    assert all(request.rendered.admission_tokens <= bench.qualified.input_budget for request in bench.model.requests)


async def test_a_look_whose_result_was_shortened_is_worth_repeating(bench: RunBench) -> None:
    bench.qualified = a_model(8192)
    put(bench.workspace, "a.md", "".join(f"line {number:03} abcdef\n" for number in range(READ_BYTES // 16)))
    for _ in range(2):
        bench.model.calls(proposed("file/read_text", path="a.md"))
    done = await play(bench)
    assert "reason window_bound" in next(text for role, text in messages(bench) if role == "tool")
    assert [one.get("code") for one in done.of("tool.call.finished")] == [None, None]


async def test_results_beyond_what_a_run_may_show_are_shortened_and_do_not_count_as_read(bench: RunBench) -> None:
    bench.qualified = a_model(131072)
    bench.profile(Budgets(model_calls=12, tool_calls=10))
    put(bench.workspace, "a.md", "".join(f"line {number:03} abcdef\n" for number in range(READ_BYTES // 16)))
    for number in range(90):
        put(bench.workspace, f"d/{number}.txt", "needle " * 30 + "\n")
    for pattern in ("needle", "needl", "need", "eedle", "edle", "eedl", "edl", "dle"):
        bench.model.calls(proposed("file/grep", pattern=pattern))
    bench.model.calls(proposed("file/read_text", path="a.md"))
    bench.model.calls(proposed("file/edit", path="a.md", old="line 255 abcdef", new="x"))
    done = await play(bench)
    assert [one.get("code") for one in done.of("tool.call.finished")] == [None] * 9 + ["not_read"]
    shown = [text for role, text in messages(bench) if role == "tool"]
    assert "reason run_result_bound" in shown[8]
    assert sum(len(text.encode()) for text in shown) <= result_budget(10) + RECEIPT_BYTES


async def test_each_call_has_one_result_in_the_transcript_of_every_request(bench: RunBench) -> None:
    bench.profile(Budgets(model_calls=6, tool_calls=4), several_calls="in_order")
    bench.model.calls(proposed("file/stat", path="a"), proposed("file/stat", path="b"), text="I look.")
    bench.model.calls(faulty())
    bench.model.calls(proposed("file/stat", path="c"))
    await play(bench)
    for request in bench.model.requests:
        asked = [one["id"] for message in request.rendered.messages for one in message.get("tool_calls", [])]  # type: ignore[attr-defined]
        assert [one["tool_call_id"] for one in request.rendered.messages if one["role"] == "tool"] == asked
        assert len(set(asked)) == len(asked)
    assert len(asked) == 4


async def test_a_long_result_is_not_counted_on_the_event_loop(bench: RunBench) -> None:
    here: list[int] = []

    def count(text: str) -> int:
        size = len(text.encode())
        if size > TOKENIZER_INLINE_BYTES and current_thread() is main_thread():
            here.append(size)
        return size

    bench.counter = replace(BYTES_COUNTER, count=count)
    for number in range(90):
        put(bench.workspace, f"d/{number}.txt", "needle " * 30 + "\n")
    bench.model.calls(proposed("file/grep", pattern="needle"))
    assert (await play(bench)).terminal == "run.completed"
    assert len(messages(bench)[-1][1].encode()) > TOKENIZER_INLINE_BYTES
    assert here == []


@pytest.mark.parametrize(("fault", "usage", "told"), [
    (ModelEmptyAnswer(usage=USAGE), Usage(input=20, output=4, complete=True), [10, 10]),
    (ModelEmptyAnswer(usage=replace(USAGE, output=0, complete=False)), Usage(input=10, output=2, complete=False), [10, 0]),
    (ModelTransport(), Usage(input=10, output=2, complete=False), [10, 0]),
])
async def test_what_a_call_took_is_counted_also_when_its_answer_cannot_be_used(
    bench: RunBench, fault: RunError, usage: Usage, told: list[int]
) -> None:
    bench.model.calls(proposed("file/stat", path="a"))
    bench.model.fails(fault)
    done = await play(bench)
    assert (done.code, done.turn.usage) == (fault.code, usage)
    assert done.of("run.failed")[0]["usage"] == usage.model_dump()
    assert [(one["reason"], one["usage"]["input"]) for one in done.of("model.response.finished")] == [("stop", told[0]), (fault.code, told[1])]  # type: ignore[index]


def any_answer(pick: Random) -> tuple[ProposedCall, ...]:
    """What a model may propose at once: right and faulty calls, its own and written ones, several."""
    kinds = [
        proposed("file/stat", path="a.md"), proposed("file/read_text", path="a.md"), proposed("file/grep", pattern="x"),
        proposed("file/write", path="b.md", content="x" * WRITE_BYTES), faulty(), faulty("file_edit", "file/edit", "file_edit: old is missing"),
        replace(proposed("file/stat", path="none"), written_as_text=True), replace(faulty("x"), written_as_text=True),
    ]
    return tuple(pick.choice(kinds) for _ in range(pick.choice([0, 1, 1, 1, 2, 3, 9])))


async def test_host_and_worker_agree_whatever_the_model_answers(bench: RunBench) -> None:
    """An honest Worker never breaks the protocol, and nothing that a model says is a fault of ours."""
    put(bench.workspace, "a.md", "x\n" * 2000)
    ends = set()
    for seed in range(150):
        pick = Random(seed)
        bench.profile(
            Budgets(model_calls=pick.choice([1, 2, 4, 12]), tool_calls=pick.choice([1, 2, 16])), several_calls=pick.choice(["refuse", "in_order"]),
            finalization=pick.choice(["empty_toolset", "marker_only"]),
        )
        bench.toolset = pick.choice([OFFERED, OFFERED, OFFERED, toolset_of(())])
        bench.model.answers.clear()
        for _ in range(12):
            answer = any_answer(pick)
            bench.model.calls(*answer, text="" if answer else "said")
        done = await play(bench)
        assert done.terminal == "run.completed" or done.code == "model_tool_loop", f"seed {seed}: {done}"
        assert len(done.of("tool.call.started")) <= bench.qualified.profile.budgets.tool_calls
        assert len(done.of("tool.call.finished")) == len(done.of("tool.call.proposed"))
        ends.add(done.terminal)
    assert ends == {"run.completed", "run.failed"}
