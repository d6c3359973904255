"""llama.cpp's chunks become Ollama's frames."""

from typing import Any

import pytest

from agent_builder.local_model.chat import Answer
from agent_builder.local_model.engine import ClientGone
from agent_builder.local_model.requests import OllamaError


class Frames(list[dict[str, Any]]):
    @property
    def messages(self) -> list[dict[str, Any]]:
        return [each["message"] for each in self]


@pytest.fixture
def frames() -> Frames:
    return Frames()


@pytest.fixture
def answer(frames: Frames) -> Answer:
    return Answer("m", window=100, put=frames.append, gone=lambda: False)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": finish, "delta": fields}]}


def call(index: int, name: str = "", arguments: str = "") -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "function": {"name": name, "arguments": arguments}}])


def test_text_and_thinking_pass_at_once_and_empty_pieces_do_not(answer: Answer, frames: Frames) -> None:
    for chunk in (delta(role="assistant", content=None), delta(reasoning_content="hm"), delta(content=""), delta(content="hi")):
        assert answer.accept(chunk) is False
    assert frames.messages == [{"role": "assistant", "content": "", "thinking": "hm"}, {"role": "assistant", "content": "hi"}]


def test_a_call_is_silent_until_it_is_complete(answer: Answer, frames: Frames) -> None:
    for chunk in (call(0, "ls"), call(0, arguments='{"path"'), call(0, arguments=': "."}')):
        answer.accept(chunk)
    assert frames == []
    answer.finish()
    (made,) = frames.messages[0]["tool_calls"]
    assert made["function"] == {"index": 0, "name": "ls", "arguments": {"path": "."}}
    assert made["id"].startswith("call_")


def test_two_calls_are_two_frames_in_order(answer: Answer, frames: Frames) -> None:
    for chunk in (call(0, "ls", "{}"), call(1, "stat", '{"path": "a"}'), delta(finish="tool_calls")):
        answer.accept(chunk)
    answer.finish()
    made = [each["tool_calls"][0]["function"] for each in frames.messages]
    assert made == [{"index": 0, "name": "ls", "arguments": {}}, {"index": 1, "name": "stat", "arguments": {"path": "a"}}]
    assert answer.reason == "stop"


def test_a_call_that_was_cut_off_is_discarded(answer: Answer, frames: Frames) -> None:
    answer.accept(call(0, "ls", '{"path": "'))
    answer.accept(delta(finish="length"))
    answer.finish()
    assert (frames, answer.reason) == ([], "length")


@pytest.mark.parametrize(("total", "stopped"), [(99, False), (100, True), (101, True)])
def test_a_prompt_that_fills_the_window_is_stopped_before_it_is_evaluated(answer: Answer, total: int, stopped: bool) -> None:
    assert answer.accept({"choices": [], "prompt_progress": {"total": total, "cache": 0, "processed": 0}}) is stopped
    assert bool(answer.overflow) is stopped


def test_an_overflow_that_llama_cpp_reports_counts_as_one(answer: Answer) -> None:
    assert answer.accept({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000}}) is True
    assert answer.overflow == 9000


def test_another_error_is_a_failure(answer: Answer) -> None:
    assert answer.accept({"error": {"code": 500, "type": "server_error", "message": "boom"}}) is True
    with pytest.raises(OllamaError, match="boom"):
        answer.finish()


def test_usage_counts_cached_and_evaluated_tokens_and_times_only_the_evaluation(answer: Answer) -> None:
    answer.accept({"choices": [], "timings": {"cache_n": 20, "prompt_n": 5, "prompt_ms": 1.5, "predicted_n": 7, "predicted_ms": 2.0}})
    assert (answer.cached, answer.prompt_read) == (20, 5)
    assert answer.usage() == {"prompt_eval_count": 25, "prompt_eval_duration": 1_500_000, "eval_count": 7, "eval_duration": 2_000_000}


def test_a_client_that_has_gone_ends_the_answer() -> None:
    answer = Answer("m", window=100, put=lambda _: None, gone=lambda: True)
    with pytest.raises(ClientGone):
        answer.accept(delta(content="x"))
