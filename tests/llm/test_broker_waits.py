"""Where a model call waits, for how long, and what is shown meanwhile. Time is moved by the test."""

import asyncio
from typing import Any

import pytest

from agent_builder.llm.prefill import Estimate
from agent_builder.protocol.errors import (
    ModelBusy,
    ModelFirstFrameTimeout,
    ModelStreamIdleTimeout,
    ModelTemporarilyUnhealthy,
    ModelTransport,
    ModelTurnDeadline,
    RunDeadline,
)
from agent_builder.protocol.events import RunStage
from agent_builder.protocol.limits import CANCELLED_PROMPT_S, CIRCUIT_OPEN_S
from agent_builder.protocol.model_profile import Timeouts
from tests.llm.bench import READ, bench, passes, rendered, until, waiting
from tests.support.fake_ollama import FakeOllama, Gate, begun, call, dropped, frames, gated, hang, last, prefill, text

SHORT = Timeouts(first_frame_s=60, idle_s=20, silent_call_s=20, call_s=200, queue_s=30)


async def test_a_silent_provider_gets_one_more_try_and_then_the_first_frame_timeout() -> None:
    with FakeOllama() as fake:
        fake.script(hang(), hang())
        async with bench(fake, timeouts=SHORT) as asking:
            asked = await waiting(asking, fake)
            await passes(asking, 59)
            assert not asked.done()
            assert len(fake.chats) == 1
            await passes(asking, 1)
            await fake.asked(2)
            await until(lambda: len(asking.stages) == 2)
            await passes(asking, 60)
            with pytest.raises(ModelFirstFrameTimeout):
                await asked
            assert asking.attempts == ["model_first_frame_timeout"] * 2
            await fake.closed(2)
            with pytest.raises(ModelTemporarilyUnhealthy):
                await asking.ask()


async def test_a_retry_without_a_full_clock_gets_what_is_left_and_keeps_the_first_code() -> None:
    with FakeOllama() as fake:
        fake.script(hang(), hang())
        async with bench(fake, timeouts=Timeouts(first_frame_s=60, call_s=100)) as asking:
            asked = await waiting(asking, fake)
            await passes(asking, 60)
            await fake.asked(2)
            await until(lambda: len(asking.stages) == 2)
            await passes(asking, 39)
            assert not asked.done()
            await passes(asking, 1)
            with pytest.raises(ModelFirstFrameTimeout):
                await asked


@pytest.mark.parametrize(("timeouts", "tools", "first_s"), [
    (Timeouts(), [], 60), (Timeouts(first_frame_s=120, idle_s=60, silent_call_s=240, call_s=300), [READ], 240),
])
async def test_a_retry_that_got_only_the_rest_of_the_call_counts_for_the_circuit(timeouts: Timeouts, tools: list[Any], first_s: int) -> None:
    with FakeOllama() as fake:
        fake.script(hang(), hang())
        async with bench(fake, timeouts=timeouts) as asking:
            asked = await waiting(asking, fake, tools=tools)
            await passes(asking, first_s + 0.002)
            await fake.asked(2)
            await until(lambda: len(asking.stages) == 2)
            await passes(asking, timeouts.call_s - first_s)
            with pytest.raises(ModelFirstFrameTimeout):
                await asked
            assert asking.attempts == ["model_first_frame_timeout"] * 2
            with pytest.raises(ModelTemporarilyUnhealthy):
                await asking.ask()


async def test_a_retry_after_a_broken_connection_keeps_that_code_when_its_clock_was_cut() -> None:
    with FakeOllama() as fake:
        gate = Gate()
        fake.script(gated(gate, dropped()), hang())
        async with bench(fake, timeouts=Timeouts(first_frame_s=60, call_s=100)) as asking:
            asked = await waiting(asking, fake)
            await passes(asking, 50)
            gate.open()
            await fake.asked(2)
            await until(lambda: len(asking.stages) == 2)
            await passes(asking, 50)
            with pytest.raises(ModelTransport):
                await asked
            assert asking.attempts == ["model_transport", "model_first_frame_timeout"]


async def test_no_retry_without_any_time_left() -> None:
    with FakeOllama() as fake:
        fake.script(hang())
        async with bench(fake, timeouts=Timeouts(first_frame_s=60, call_s=60)) as asking:
            asked = await waiting(asking, fake)
            await passes(asking, 60)
            with pytest.raises(ModelFirstFrameTimeout):
                await asked
        assert len(fake.chats) == 1


async def test_silence_in_the_middle_is_an_idle_timeout_and_never_retried() -> None:
    with FakeOllama() as fake:
        fake.script(gated(Gate(), text("never"), before=begun("half")))
        async with bench(fake, timeouts=SHORT) as asking:
            asked = await waiting(asking, fake)
            await until(lambda: asking.text == "half")
            await passes(asking, 19)
            assert not asked.done()
            await passes(asking, 1)
            with pytest.raises(ModelStreamIdleTimeout):
                await asked
        assert len(fake.chats) == 1


async def test_frames_that_keep_coming_end_at_the_length_of_a_call() -> None:
    gates = [Gate() for _ in range(12)]

    async def slowly(answer: Any, body: Any) -> None:
        for gate in gates:
            await begun(".")(answer, body)
            await answer.unless_gone(gate.wait())

    with FakeOllama() as fake:
        fake.script(slowly)
        async with bench(fake, timeouts=SHORT) as asking:
            asked = await waiting(asking, fake)
            for number, gate in enumerate(gates, 1):
                await until(lambda: len(asking.text) == number)  # noqa: B023 -- awaited in the same turn of the loop
                await passes(asking, 18)
                if number < len(gates):
                    gate.open()
            with pytest.raises(ModelTurnDeadline):
                await asked
            assert len(asking.text) == 12


async def test_the_runs_deadline_ends_the_wait() -> None:
    with FakeOllama() as fake:
        fake.script(hang())
        async with bench(fake, timeouts=SHORT) as asking:
            await asking.model()
            asked = await waiting(asking, fake, deadline=asking.clock.monotonic() + 30)
            await passes(asking, 30)
            with pytest.raises(RunDeadline):
                await asked
            await fake.closed()


async def test_an_offered_tool_gives_the_silent_clock() -> None:
    timeouts = Timeouts(first_frame_s=10, idle_s=10, silent_call_s=50, call_s=400)
    with FakeOllama() as fake:
        gate = Gate()
        fake.script(gated(gate, call("file_read_text", path="a.txt")), gated(Gate(), text("never"), before=begun("I will")))
        async with bench(fake, timeouts=timeouts) as asking:
            asked = await waiting(asking, fake, tools=[READ])
            await passes(asking, 49)
            gate.open()
            assert (await asked).calls
            asked = asyncio.ensure_future(asking.ask(tools=[READ]))
            await until(lambda: asking.text == "I will")
            await passes(asking, 49)
            assert not asked.done()
            await passes(asking, 1)
            with pytest.raises(ModelStreamIdleTimeout):
                await asked


async def test_a_long_prompt_gets_twice_its_estimated_time_and_shows_the_estimate() -> None:
    with FakeOllama() as fake:
        gate = Gate()
        fake.script(gated(gate, text("read")))
        async with bench(fake, timeouts=SHORT) as asking:
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 10.0)
            request = rendered("x" * 4 * 798)
            asked = await waiting(asking, fake, request=request)
            assert asking.told[-1] == RunStage(stage="evaluating_prompt", expected_s=80.2)
            await passes(asking, 159)
            assert not asked.done()
            gate.open()
            assert (await asked).text == "read"


async def test_reading_time_beyond_the_first_frame_clock_is_added_to_the_call() -> None:
    with FakeOllama() as fake:
        gates = [Gate(), Gate()]

        async def slowly(answer: Any, body: Any) -> None:
            await answer.unless_gone(gates[0].wait())
            await begun(".")(answer, body)
            await answer.unless_gone(gates[1].wait())
            await text("!")(answer, body)

        fake.script(slowly)
        async with bench(fake, timeouts=Timeouts(first_frame_s=60, call_s=100, idle_s=200)) as asking:
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 10.0)
            asked = await waiting(asking, fake, request=rendered("x" * 4 * 798))
            await passes(asking, 150)
            gates[0].open()
            await until(lambda: asking.text == ".")
            await passes(asking, 48)
            assert not asked.done()
            gates[1].open()
            assert (await asked).text == ".!"


# queue -------------------------------------------------------------------------------------------------------------


async def test_a_third_call_waits_for_a_stream_and_says_so() -> None:
    with FakeOllama() as fake:
        gate = Gate()
        fake.script(gated(gate, text("1")), gated(gate, text("2")), text("3"))
        async with bench(fake) as asking:
            first = [await waiting(asking, fake, number) for number in (1, 2)]
            third = asyncio.ensure_future(asking.ask())
            await until(lambda: asking.stages[-1] == "model_queue")
            assert len(fake.chats) == 2
            gate.open()
            answers = [(await asked).text for asked in (*first, third)]
            assert sorted(answers) == ["1", "2", "3"]


async def test_a_queue_ends_in_model_busy_after_its_time() -> None:
    with FakeOllama() as fake:
        fake.script(hang())
        async with bench(fake, streams=1) as asking:
            first = await waiting(asking, fake)
            second = asyncio.ensure_future(asking.ask())
            await until(lambda: asking.stages[-1] == "model_queue")
            await passes(asking, 29)
            assert not second.done()
            await passes(asking, 1)
            with pytest.raises(ModelBusy):
                await second
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first


# cancelling --------------------------------------------------------------------------------------------------------


async def test_cancelling_closes_the_connection() -> None:
    with FakeOllama() as fake:
        fake.script(gated(Gate(), text("never"), before=begun("half")), hang())
        async with bench(fake) as asking:
            for number in (1, 2):
                asked = await waiting(asking, fake, number)
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
                await fake.closed(number)
            assert [closed.path for closed in fake.left] == ["/api/chat", "/api/chat"]


async def test_a_cancelled_prompt_gives_the_next_call_more_time_and_a_stage_of_its_own() -> None:
    with FakeOllama(one_slot=True) as fake:
        gate = Gate()
        fake.script(prefill(gate), text("at last"))
        async with bench(fake, timeouts=SHORT) as asking:
            first = await waiting(asking, fake)
            await passes(asking, 2)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            second = asyncio.ensure_future(asking.ask())
            await until(lambda: asking.stages[-1] == "cancelled_prompt")
            assert asking.told[-1] == RunStage(stage="cancelled_prompt", expected_s=CANCELLED_PROMPT_S)
            await passes(asking, 60 + CANCELLED_PROMPT_S - 2)
            assert not second.done()
            gate.open()
            assert (await second).text == "at last"
            await asking.ask()
            assert asking.stages[-2:] == ["evaluating_prompt", "answering"]


async def test_a_timeout_behind_a_cancelled_prompt_opens_no_circuit() -> None:
    with FakeOllama() as fake:
        fake.script(hang(), hang(), hang())
        async with bench(fake, timeouts=Timeouts(first_frame_s=10, call_s=15)) as asking:
            first = await waiting(asking, fake)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            second = asyncio.ensure_future(asking.ask())
            await until(lambda: asking.stages[-1] == "cancelled_prompt")
            await fake.asked(2)
            await passes(asking, 10 + CANCELLED_PROMPT_S)
            await fake.asked(3)
            await until(lambda: asking.stages[-1] == "evaluating_prompt")
            await passes(asking, 10)
            with pytest.raises(ModelFirstFrameTimeout):
                await second
            assert asking.models.circuits.is_open("test") is False


async def test_a_prompt_cancelled_within_its_estimate_blocks_for_the_rest_only() -> None:
    async with bench_of_prefill() as asking:
        prefill_memory = asking.models.prefill
        prefill_memory.cancelled_before_a_frame("here", Estimate(100, 10.0, True), 5.0)
        assert round(prefill_memory.cancelled_prompt_s("here")) == 15
        prefill_memory.cancelled_before_a_frame("there", Estimate(100, 10.0, True), 25.0)
        assert round(prefill_memory.cancelled_prompt_s("there")) == CANCELLED_PROMPT_S
        assert prefill_memory.cancelled_prompt_s("elsewhere") == 0


def bench_of_prefill() -> Any:
    return bench(FakeOllama())


# another call, and loading -------------------------------------------------------------------------------------------


async def test_the_first_frame_clock_waits_for_an_earlier_call_at_the_same_server() -> None:
    with FakeOllama(one_slot=True) as fake:
        gate = Gate()
        fake.script(gated(gate, text("first")), text("second"))
        async with bench(fake, timeouts=Timeouts(first_frame_s=60, call_s=400)) as asking:
            first = await waiting(asking, fake)
            await passes(asking, 30)
            second = asyncio.ensure_future(asking.ask())
            await until(lambda: len(asking.stages) == 2)
            await passes(asking, 29)
            assert not first.done()
            gate.open()
            assert ((await first).text, (await second).text) == ("first", "second")
            assert asking.attempts == ["first_frame", "first_frame"]


async def test_a_call_that_waited_has_to_read_what_the_earlier_one_has_pushed_out() -> None:
    with FakeOllama(one_slot=True) as fake:
        first_gate, second_gate = Gate(), Gate()
        untimed = last(prompt_eval_duration=None)
        fake.script(text("before", end=untimed), gated(first_gate, text("first", end=untimed)), gated(second_gate, text("second")))
        async with bench(fake, timeouts=SHORT) as asking:
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 10.0)
            request = rendered("x" * 4 * 798)
            await asking.ask(request=request)
            first = await waiting(asking, fake, 2, request=rendered("y" * 4 * 798))
            second = asyncio.ensure_future(asking.ask(request=request))
            await until(lambda: len(asking.stages) == 4)
            first_gate.open()
            await first
            await fake.asked(3)
            await passes(asking, 150)
            assert not second.done()
            second_gate.open()
            assert (await second).text == "second"
            assert asking.attempts == ["first_frame"] * 3


async def test_the_clock_of_a_waiting_call_begins_when_the_earlier_one_has_ended() -> None:
    with FakeOllama() as fake:
        fake.script(hang(), hang(), hang())
        async with bench(fake, timeouts=Timeouts(first_frame_s=60, call_s=100)) as asking:
            first = await waiting(asking, fake)
            await passes(asking, 50)
            second = await waiting(asking, fake, 2)
            await until(lambda: len(asking.stages) == 2)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await passes(asking, 59)
            assert not second.done()
            await passes(asking, 1)
            await fake.asked(3)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second


async def test_a_server_seen_to_answer_two_at_once_gets_no_such_patience() -> None:
    with FakeOllama() as fake:
        gate = Gate()
        fake.script(gated(gate, text("!"), before=begun("slow")), text("quick"), hang(), hang())
        async with bench(fake, timeouts=Timeouts(first_frame_s=60, call_s=130, idle_s=600)) as asking:
            first = await waiting(asking, fake)
            assert (await asking.ask()).text == "quick"
            third = await waiting(asking, fake, 3)
            await passes(asking, 60)
            await fake.asked(4)
            third.cancel()
            with pytest.raises(asyncio.CancelledError):
                await third
            gate.open()
            assert (await first).text == "slow!"


async def test_a_model_that_was_put_away_is_loaded_outside_the_first_frame_clock() -> None:
    with FakeOllama() as fake:
        async with bench(fake, timeouts=SHORT) as asking:
            await asking.ask()
            fake.loaded, fake.load_gate = False, Gate()
            asked = asyncio.ensure_future(asking.ask())
            await until(lambda: asking.stages[-1] == "loading_model")
            await fake.loading()
            assert fake.loads[0]["options"] == {"num_ctx": 32768}
            await passes(asking, 300)
            assert not asked.done()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await fake.closed()
            assert asking.models.prefill.cancelled_prompt_s(fake.url) == 0


async def test_a_load_that_takes_longer_than_a_run_goes_on_for_the_next_one() -> None:
    with FakeOllama() as fake:
        async with bench(fake, timeouts=SHORT) as asking:
            await asking.model()
            fake.loaded, fake.load_gate = False, Gate()
            first = asyncio.ensure_future(asking.ask(deadline=asking.clock.monotonic() + 240))
            await until(lambda: asking.stages[-1:] == ["loading_model"])
            await fake.loading()
            await passes(asking, 240)
            with pytest.raises(RunDeadline):
                await first
            await fake.closed()
            second = asyncio.ensure_future(asking.ask())
            await until(lambda: len(asking.stages) > 2 and asking.stages[-1] == "loading_model")
            assert [closed.path for closed in fake.left] == ["/api/chat"]
            fake.load_gate.open()
            assert (await second).text == "ok"
            assert len(fake.loads) == 1


async def test_the_end_of_the_gateway_ends_a_load() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.model()
            fake.loaded, fake.load_gate = False, Gate()
            asked = asyncio.ensure_future(asking.ask())
            await fake.loading()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        await fake.closed(2)
        assert asking.models._entries["test"].reloading is None


async def test_after_loading_there_is_all_of_the_prompt_to_read() -> None:
    with FakeOllama() as fake:
        async with bench(fake, timeouts=SHORT) as asking:
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 10.0)
            request = rendered("x" * 4 * 798)
            await asking.ask(request=request)
            assert asking.broker.estimate(await asking.model(), request).uncached == 1
            gate, answer = Gate(), Gate()
            fake.loaded, fake.load_gate = False, gate
            fake.script(gated(answer, text("read", end=last(prompt=802, prompt_eval_duration=80 * 10**9))))
            asked = asyncio.ensure_future(asking.ask(request=request))
            await until(lambda: "loading_model" in asking.stages)
            gate.open()
            await until(lambda: asking.stages[-1] == "evaluating_prompt")
            assert asking.told[-1] == RunStage(stage="evaluating_prompt", expected_s=80.2)
            await passes(asking, 159)
            assert not asked.done()
            answer.open()
            assert (await asked).usage.evaluated == 802


async def test_a_model_that_another_client_gave_another_window_is_loaded_anew() -> None:
    with FakeOllama() as fake:
        async with bench(fake, timeouts=SHORT) as asking:
            await asking.ask()
            fake.allocated, fake.load_gate = 4096, Gate()
            fake.load_step = gated(fake.load_gate, frames(end=last("load")))
            answer = Gate()
            fake.script(gated(answer, text("loaded")))
            asked = asyncio.ensure_future(asking.ask())
            await until(lambda: asking.stages[-1] == "loading_model")
            await fake.loading()
            await passes(asking, 300)
            assert not asked.done()
            fake.allocated = None
            fake.load_gate.open()
            await until(lambda: asking.stages[-1] == "evaluating_prompt")
            answer.open()
            assert (await asked).text == "loaded"
            assert asking.models.public()[0].available


async def test_a_first_frame_that_comes_before_the_end_of_the_load_is_no_reason_to_forget_the_prompt() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.model()
            fake.loaded, fake.load_step = False, hang()
            request = rendered("x" * 4 * 799)
            await asking.ask(request=request)
            assert asking.broker.estimate(await asking.model(), request).uncached == 1


async def test_a_call_given_up_in_silence_may_keep_the_server_busy_for_the_next_one() -> None:
    with FakeOllama() as fake:
        fake.script(hang(), hang())
        async with bench(fake, timeouts=SHORT) as asking:
            asked = await waiting(asking, fake)
            await passes(asking, 60)
            await fake.asked(2)
            await until(lambda: len(asking.stages) == 2)
            assert asking.stages == ["evaluating_prompt"] * 2
            await passes(asking, 60)
            with pytest.raises(ModelFirstFrameTimeout):
                await asked
            await passes(asking, CIRCUIT_OPEN_S)
            assert (await asking.ask()).text == "ok"
            assert asking.stages[2] == "cancelled_prompt"


async def test_after_loading_the_first_frame_clock_begins_anew() -> None:
    with FakeOllama() as fake:
        async with bench(fake, timeouts=SHORT) as asking:
            await asking.model()
            gate, answer = Gate(), Gate()
            fake.loaded, fake.load_gate = False, gate
            fake.script(gated(answer, text("loaded")))
            asked = asyncio.ensure_future(asking.ask())
            await until(lambda: "loading_model" in asking.stages)
            await passes(asking, 100)
            gate.open()
            await until(lambda: asking.stages[-1] == "evaluating_prompt")
            await passes(asking, 59)
            assert not asked.done()
            answer.open()
            assert (await asked).text == "loaded"


async def test_a_server_without_ps_is_asked_all_the_same() -> None:
    with FakeOllama(missing={"/api/ps"}) as fake:
        async with bench(fake) as asking:
            assert (await asking.ask()).text == "ok"
            assert "loading_model" not in asking.stages


async def test_other_weights_under_the_same_name_are_probed_before_the_next_turn() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.ask()
            fake.models[fake.model].digest = "ef" * 32
            gate = Gate()
            fake.script(gated(gate, text("new")))
            asked = await waiting(asking, fake, 2)
            await until(lambda: asking.models._entries["test"].stale)
            gate.open()
            await asked
            assert (await asking.model()).digest == "ef" * 32


async def test_an_open_circuit_refuses_before_anything_is_sent() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.model()
            asking.models.circuits.failed("test")
            asking.models.circuits.failed("test")
            with pytest.raises(ModelTemporarilyUnhealthy):
                await asking.ask()
            assert fake.chats == []
            asking.clock.advance(CIRCUIT_OPEN_S)
            assert (await asking.ask()).text == "ok"
