"""Every way in which a model call can fail, and what is retried, remembered and refused because of it."""

import json
from typing import Any

import pytest

from agent_builder.llm.broker import ProviderOverflow
from agent_builder.protocol.errors import (
    ModelCapabilityMissing,
    ModelContextLimit,
    ModelContextTruncated,
    ModelNotFound,
    ModelProtocol,
    ModelProviderError,
    ModelTemporarilyUnhealthy,
    ModelTransport,
    ModelUnavailable,
    RunError,
)
from agent_builder.protocol.events import TransportAttemptStarted
from agent_builder.protocol.limits import (
    CIRCUIT_OPEN_S,
    NDJSON_LINE_BYTES,
    RAW_STREAM_BYTES,
    RAW_STREAM_FRAMES,
    RAW_STREAM_SPARE_FRAMES,
)
from tests.llm.bench import READ, bench, rendered
from tests.support.fake_ollama import FakeOllama, begun, dropped, frame, frames, last, line, raw, status, text

ERROR = b'{"error":"an error was encountered while running the model: unexpected EOF"}\n'
END = line(last()({}))
NESTED = json.dumps({"error": json.dumps({"error": {"code": 400, "message": "request (9000 tokens) exceeds the available context size (4096 tokens)",
                                                     "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096}})})
LONGER = "the prompt is longer than the context length currently available to the model; shorten the prompt"


async def fails(fake: FakeOllama, step: Any, error: type[RunError], requests: int) -> str:
    """The answer fails with `error` after `requests` requests; gives the message. The next call works."""
    fake.script(*[step] * requests)
    async with bench(fake) as asking:
        with pytest.raises(error) as caught:
            await asking.ask(tools=[READ])
        assert type(caught.value) is error
        assert len(fake.chats) == requests
        asking.clock.advance(CIRCUIT_OPEN_S)
        assert (await asking.ask()).text == "ok"
    return caught.value.message


ONCE = [
    (status(400, {"error": "json: cannot unmarshal string into Go value"}), ModelProtocol),
    (status(400, {"error": "model is required"}), ModelProtocol),
    (status(401, {"error": "unauthorized", "signin_url": "http://x"}), ModelProtocol),
    (status(403), ModelProtocol),
    (status(301), ModelProtocol),
    (status(404, {"error": "model 'm' not found"}), ModelNotFound),
    (status(404, "404 page not found", "text/plain"), ModelNotFound),
    (status(400, {"error": "registry.ollama.ai/library/m does not support tools"}), ModelCapabilityMissing),
    (status(400, {"error": '"m" does not support thinking'}), ModelCapabilityMissing),
    (status(400, {"error": "the input length exceeds the context length"}), ProviderOverflow),
    (status(400, {"error": LONGER}), ProviderOverflow),
    (status(400, NESTED), ProviderOverflow),
    (raw(line({"error": "the input length exceeds the context length"})), ProviderOverflow),
    (raw(line({"error": "model 'm' not found"})), ModelNotFound),
    (raw(b""), ModelProtocol),
    (raw(b"\n\n"), ModelProtocol),
    (raw(b"<html>welcome</html>"), ModelProtocol),
    (raw(b"not json\n"), ModelProtocol),
    (raw(b"[]\n"), ModelProtocol),
    (raw(b"{}\n"), ModelProtocol),
    (raw(b'{"message":"text"}\n'), ModelProtocol),
    (raw(b'{"message":{"content":5}}\n'), ModelProtocol),
    (raw(b'{"message":{"tool_calls":{}},"x":{"tool_calls":1}}\n' + END), None),
    (raw(b'{"message":{"tool_calls":["x"]}}\n'), ModelProtocol),
    (raw(b'{"message":{"content":NaN}}\n'), ModelProtocol),
    (raw(b'{"message":{"content":"\xff"}}\n'), ModelProtocol),
    (raw(b"[" * 200_000 + b"\n"), ModelProtocol),
    (raw(line(frame(content="half"))), ModelProtocol),
    (raw(line(frame(content="half")), b'{"message":{"con'), ModelProtocol),
    (raw(line(frame(content="half")), ERROR), ModelProviderError),
    (raw(line(frame(content="half")) + ERROR), ModelProviderError),
    (raw(line(frame(content="half")), cut=True), ModelTransport),
    (raw(line(frame(content="half")), b"not json\n"), ModelProtocol),
]
TWICE = [
    (status(500, {"error": 'option "num_ctx" must be of type integer'}), ModelProviderError),
    (status(500, "template: failed"), ModelProviderError),
    (status(502, "<html>Bad Gateway</html>", "text/html"), ModelProviderError),
    (status(503, {"error": "server busy, please try again.  maximum pending requests exceeded"}), ModelProviderError),
    (raw(ERROR), ModelProviderError),
    (dropped(), ModelTransport),
    (raw(cut=True), ModelTransport),
]


@pytest.mark.parametrize(("step", "error"), [(step, error) for step, error in ONCE if error is not None])
async def test_what_another_try_would_not_change_is_tried_once(step: Any, error: type[RunError]) -> None:
    with FakeOllama() as fake:
        await fails(fake, step, error, 1)


@pytest.mark.parametrize(("step", "error"), TWICE)
async def test_a_fault_before_any_frame_is_tried_once_more(step: Any, error: type[RunError]) -> None:
    with FakeOllama() as fake:
        await fails(fake, step, error, 2)


async def test_the_providers_words_are_not_passed_on() -> None:
    secret = "CUDA out of memory at /home/operator/models"
    for step, requests in ((raw(line(frame(content="x")), line({"error": secret})), 1), (status(500, {"error": secret}), 2)):
        with FakeOllama() as fake:
            message = await fails(fake, step, ModelProviderError, requests)
            assert "CUDA" not in message
            assert "operator" not in message


async def test_an_overflow_is_a_context_limit() -> None:
    with FakeOllama() as fake:
        fake.script(status(400, NESTED))
        async with bench(fake) as asking:
            with pytest.raises(ModelContextLimit):
                await asking.ask()
            assert asking.attempts == ["model_context_limit"]


async def test_a_transparent_retry_may_succeed_and_both_attempts_are_told() -> None:
    with FakeOllama() as fake:
        fake.script(status(503, {"error": "server busy"}), text("yes"))
        async with bench(fake) as asking:
            assert (await asking.ask()).text == "yes"
            assert asking.attempts == ["model_provider_error", "first_frame"]
            assert [payload.attempt for payload in asking.told if isinstance(payload, TransportAttemptStarted)] == [1, 2]


async def test_a_summary_shows_what_it_is_and_tells_no_durable_event() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.ask(kind="summary")
            assert asking.stages == ["summarising"]
            options = fake.chats[0]["options"]
            assert (options["temperature"], options["num_predict"]) == (0, 512)
            assert [payload for payload in asking.told if payload.durable] == []


async def test_a_summary_that_fails_opens_no_circuit() -> None:
    with FakeOllama() as fake:
        fake.script(dropped(), dropped(), text("the Turn's own"))
        async with bench(fake) as asking:
            with pytest.raises(ModelTransport):
                await asking.ask(kind="summary")
            assert (await asking.ask()).text == "the Turn's own"


async def test_a_refused_connection_is_tried_twice_and_opens_the_circuit() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.model()
            fake.stop()
            with pytest.raises(ModelUnavailable):
                await asking.ask()
            assert asking.attempts == ["model_unavailable", "model_unavailable"]
            with pytest.raises(ModelTemporarilyUnhealthy):
                await asking.ask()
            asking.clock.advance(CIRCUIT_OPEN_S)
            with pytest.raises(ModelUnavailable):
                await asking.ask()


async def test_two_attempts_without_a_frame_open_the_circuit_and_one_does_not() -> None:
    with FakeOllama() as fake:
        busy = status(503, {"error": "server busy"})
        fake.script(busy, text("a"), busy, busy)
        async with bench(fake) as asking:
            assert (await asking.ask()).text == "a"
            with pytest.raises(ModelProviderError):
                await asking.ask()
            with pytest.raises(ModelTemporarilyUnhealthy):
                await asking.ask()
            assert len(fake.chats) == 4
            asking.clock.advance(CIRCUIT_OPEN_S - 1)
            with pytest.raises(ModelTemporarilyUnhealthy):
                await asking.ask()
            asking.clock.advance(1)
            assert (await asking.ask()).text == "ok"


async def test_faults_after_a_frame_open_no_circuit() -> None:
    with FakeOllama() as fake:
        fake.script(*[raw(line(frame(content="half")), cut=True)] * 3)
        async with bench(fake) as asking:
            for _ in range(3):
                with pytest.raises(ModelTransport):
                    await asking.ask()
            assert asking.attempts == ["first_frame"] * 3


async def test_a_missing_model_is_probed_anew_before_its_next_turn() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.ask()
            fake.script(status(404, {"error": "model 'm' not found"}))
            with pytest.raises(ModelNotFound):
                await asking.ask()
            probes = len([path for _, path in fake.questions if path == "/api/show"])
            await asking.ask()
            assert len([path for _, path in fake.questions if path == "/api/show"]) == probes + 1


# bytes -------------------------------------------------------------------------------------------------------------

ODD = "实现成本👩‍👩‍👧用 a\u0085b\u2028c\u2029d\x0b\r\n\n\n    if x:\r\r\ufeff data: fake\n\nevent: run.completed\n\n"


async def test_a_frame_may_be_cut_at_every_byte() -> None:
    with FakeOllama() as fake:
        content = line(frame(content=ODD)) + END
        fake.script(raw(*(content[at : at + 1] for at in range(len(content)))))
        async with bench(fake) as asking:
            assert (await asking.ask()).text == ODD


@pytest.mark.parametrize("content", [line(frame(content=ODD)) * 2 + END, (line(frame(content=ODD)) * 2 + END).replace(b"\n", b"\r\n"),
                                     b"\n\n" + line(frame(content=ODD)) + b"\n" + line(frame(content=ODD)) + END[:-1]])
async def test_lines_in_one_write_with_other_ends_and_without_the_last_one(content: bytes) -> None:
    with FakeOllama() as fake:
        fake.script(raw(content))
        async with bench(fake) as asking:
            assert (await asking.ask()).text == ODD * 2


async def test_half_of_a_surrogate_pair_is_replaced() -> None:
    with FakeOllama() as fake:
        fake.script(raw(b'{"message":{"content":"a\\ud83db\\ud83d\\ude00"},"done":false}\n' + END))
        async with bench(fake) as asking:
            assert (await asking.ask()).text == "a\ufffdb😀"


@pytest.mark.parametrize(("more", "error"), [(0, None), (1, ModelProtocol)])
async def test_a_line_has_a_bound(more: int, error: type[RunError] | None) -> None:
    frame_size = len(line(frame(thinking=""))) - 1
    content = line(frame(thinking="t" * (NDJSON_LINE_BYTES - frame_size + more)))
    with FakeOllama() as fake:
        fake.script(raw(content, line(frame(content="yes")), END))
        async with bench(fake) as asking:
            if error is None:
                assert (await asking.ask()).text == "yes"
            else:
                with pytest.raises(error):
                    await asking.ask()


@pytest.mark.parametrize(("more", "error"), [(0, None), (1, ModelProtocol)])
async def test_a_stream_has_a_bound_of_frames_beside_the_final_one(more: int, error: type[RunError] | None) -> None:
    for output_cap, most in ((10, RAW_STREAM_FRAMES), (5000, 5000 + RAW_STREAM_SPARE_FRAMES)):
        with FakeOllama() as fake:
            content = line(frame(content=".")) + line(frame()) * (most - 1 + more)
            fake.script(raw(content, END))
            async with bench(fake, output_cap=output_cap) as asking:
                if error is None:
                    assert (await asking.ask()).text == "."
                else:
                    with pytest.raises(error):
                        await asking.ask()


async def test_a_stream_has_a_bound_of_bytes() -> None:
    padded = line({**frame(content="."), "padding": "p" * 100_000})
    count = RAW_STREAM_BYTES // len(padded)
    rest = RAW_STREAM_BYTES - count * len(padded)
    with FakeOllama() as fake:
        fake.script(raw(padded * count + b"\n" * (rest - len(END)), END), raw(padded * count + b"\n" * rest, b"\n", END))
        async with bench(fake) as asking:
            assert (await asking.ask()).text == "." * count
            with pytest.raises(ModelProtocol):
                await asking.ask()


# silent truncation -------------------------------------------------------------------------------------------------


async def test_a_count_far_below_what_was_sent_throws_the_answer_away() -> None:
    with FakeOllama() as fake:
        fake.script(text("nonsense", end=last(prompt=60)), text("fine", end=last(prompt=200)))
        async with bench(fake) as asking:
            with pytest.raises(ModelContextTruncated):
                await asking.ask("word and " * 700)
            assert (await asking.ask("word and " * 700)).text == "fine"
        assert len(fake.chats) == 2


async def test_exact_counts_catch_what_the_rough_bound_lets_pass() -> None:
    with FakeOllama() as fake:
        request = rendered("word and " * 700, exact=True)
        fake.script(text("proves", end=last(prompt=1600)), text("nonsense", end=last(prompt=1025)), text("fine", end=last(prompt=1600)))
        async with bench(fake) as asking:
            await asking.ask(request=request)
            with pytest.raises(ModelContextTruncated):
                await asking.ask(request=request)
            assert (await asking.ask(request=request)).text == "fine"


@pytest.mark.parametrize("version", ["0.30.0", "0.30.7", "0.30"])
async def test_servers_that_leave_out_cached_tokens_are_believed(version: str) -> None:
    with FakeOllama(version=version) as fake:
        fake.script(text("fine", end=last(prompt=3)))
        async with bench(fake) as asking:
            assert (await asking.ask("word and " * 700)).text == "fine"


async def test_a_missing_count_trips_nothing() -> None:
    with FakeOllama() as fake:
        fake.script(text("fine", end=last(prompt_eval_count=None)))
        async with bench(fake) as asking:
            assert (await asking.ask("word and " * 700)).text == "fine"


async def test_the_known_prefix_sharpens_the_rough_bound() -> None:
    system = "S. " * 400
    with FakeOllama() as fake:
        fake.warm_up = frames(end=last("length", prompt=500, output=1))
        fake.script(text("nonsense", end=last(prompt=249)), text("fine", end=last(prompt=251)))
        async with bench(fake) as asking:
            await asking.models.load(await asking.model(), rendered(".", system=system))
            with pytest.raises(ModelContextTruncated):
                await asking.ask(request=rendered("hi", system=system))
            assert (await asking.ask(request=rendered("hi", system=system))).text == "fine"


async def test_an_error_answer_is_read_only_in_part() -> None:
    async def endless(answer: Any, body: Any) -> None:
        await answer.begin(500)
        for _ in range(4000):
            await answer.write(b"x" * 1000)

    with FakeOllama() as fake:
        fake.script(endless, endless)
        async with bench(fake) as asking:
            with pytest.raises(ModelProviderError):
                await asking.ask()
        await fake.closed(2)


async def test_a_partial_answer_is_passed_on_before_its_fault() -> None:
    async def breaks(answer: Any, body: Any) -> None:
        await begun("Half an answer")(answer, body)
        await answer.write(ERROR)

    with FakeOllama() as fake:
        fake.script(breaks)
        async with bench(fake) as asking:
            with pytest.raises(ModelProviderError):
                await asking.ask()
            assert asking.text == "Half an answer"
