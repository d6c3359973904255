"""builtin/echo, the tool that a Worker runs itself, through a real confined Worker. No new Run is offered it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.context.toolset import toolset_of
from agent_builder.protocol.frames import LocalResult, ModelDone
from agent_builder.protocol.limits import ECHO_BYTES, READ_BYTES
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.worker.kernel import HarnessKernel
from tests.support.piped_worker import Link, Piped
from tests.support.run_bench import OFFERED, RunBench, proposed, real_workers, run_bench

LONGEST = "é" * (ECHO_BYTES // 2)


@pytest.fixture
async def bench(tmp_path: Path, worker_env: Path) -> AsyncIterator[RunBench]:
    echo = CATALOG.get("builtin/echo")
    assert echo is not None
    async with run_bench(tmp_path, worker_env) as made:
        made.toolset = toolset_of((*OFFERED.specs, echo))
        yield made


def tool_message(bench: RunBench) -> str:
    """The result as the last request shows it."""
    return str(next(m["content"] for m in reversed(bench.model.requests[-1].rendered.messages) if m["role"] == "tool"))


async def test_a_local_call_is_recorded_whole_and_given_to_the_model(bench: RunBench) -> None:
    bench.model.calls(proposed("builtin/echo", text="café 你好"))
    bench.model.says("it said café")
    done = await bench.run(real_workers(bench.clock))
    assert done.turn.assistant_text == "it said café"
    assert [event.type for event in done.journal if event.type.startswith("tool.")] == ["tool.call.proposed", "tool.call.started", "tool.call.finished"]
    (finished,) = done.of("tool.call.finished")
    assert (finished["outcome"], finished["receipt"]["text"]) == ("ok", "café 你好")
    assert tool_message(bench) == "café 你好"


async def test_the_longest_result_is_whole_in_its_event_and_cut_for_the_model(bench: RunBench) -> None:
    bench.model.calls(proposed("builtin/echo", text=LONGEST))
    done = await bench.run(real_workers(bench.clock))
    assert done.terminal == "run.completed"
    (finished,) = done.of("tool.call.finished")
    assert finished["receipt"]["text"] == LONGEST
    shown = tool_message(bench)
    assert len(shown.encode()) <= READ_BYTES
    assert f"shortened: call {finished['call_id']}, {ECHO_BYTES} bytes" in shown


async def test_an_argument_one_byte_too_long_is_a_loop_for_the_worker(bench: RunBench) -> None:
    bench.model.calls(proposed("builtin/echo", text=LONGEST + "x"))
    done = await bench.run(real_workers(bench.clock))
    assert (done.code, done.of("tool.call.finished")) == ("model_tool_loop", [])


async def test_a_local_and_a_brokered_call_of_one_answer_are_done_in_order(bench: RunBench) -> None:
    bench.profile(several_calls="in_order")
    bench.model.calls(proposed("builtin/echo", text="first"), proposed("file/stat", path="none"))
    done = await bench.run(real_workers(bench.clock))
    assert [(one["tool_id"], one["outcome"]) for one in done.of("tool.call.finished")] == [("builtin/echo", "ok"), ("file/stat", "refused")]
    roles = [message["role"] for message in bench.model.requests[-1].rendered.messages]
    assert roles.count("tool") == 2


async def test_a_worker_that_echoes_something_else_fails_its_run(bench: RunBench) -> None:
    async def lie(link: Link) -> None:
        kernel = HarnessKernel(CATALOG)
        while True:
            frame = await link.frame()
            moves = kernel.step(frame)
            if isinstance(frame, ModelDone):
                link.send(LocalResult(frame.calls[0].call_id, "HOSTILE"))
            else:
                link.send(*moves)

    bench.model.calls(proposed("builtin/echo", text="true"))
    done = await bench.run(Piped(lie))
    assert (done.code, done.of("tool.call.finished")) == ("worker_protocol", [])
    assert "HOSTILE" not in str(done)


def test_no_new_run_is_offered_it() -> None:
    assert "builtin/echo" not in [spec.id for spec in OFFERED.specs]
