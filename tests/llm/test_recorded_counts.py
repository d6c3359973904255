"""Exact counts held to what a real server reported: the recorded requests, counted with the weights' own vocabulary."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_builder.context.costs import message_cost, priced_schema
from agent_builder.llm.tokenizer import ExactCounter, build, vocabulary
from agent_builder.local_model.gguf import read_gguf
from agent_builder.protocol.request import TokenCounter
from tests.support.embedded_model import LOCAL_MODEL, prepare
from tests.support.plans import EXACT_COUNTER

pytestmark = pytest.mark.model

RECORDINGS = Path(__file__).parents[1] / "data/ollama"
MARKS = 4  # tokens of the recorded templates around a message: its begin, a line feed, its end, a line feed
VOCABULARIES = {"small": "qwen2.5-coder-0.5b*.gguf", "smollm2": "smollm2*.gguf"}


@pytest.fixture(scope="module")
def counters() -> dict[str, TokenCounter]:
    prepare(*VOCABULARIES)
    return {name: counter(next((LOCAL_MODEL / "weights").glob(pattern))) for name, pattern in VOCABULARIES.items()}


def counter(weights: Path) -> TokenCounter:
    file = read_gguf(weights)
    lists = {f"tokenizer.ggml.{name}": file.array(f"tokenizer.ggml.{name}") for name in ("tokens", "merges", "token_type")}
    count = ExactCounter(build(vocabulary({**file.metadata, **lists}))).count
    return replace(EXACT_COUNTER, count=count)


def recorded(name: str) -> tuple[dict[str, Any], int]:
    """Request, and the tokens that the server reported for it."""
    exchange = json.loads((RECORDINGS / f"{name}.json").read_text())
    last = json.loads(exchange["response"]["lines"][-1][1])
    return exchange["request"]["body"], last["prompt_eval_count"]


def text_tokens(body: dict[str, Any], counter: TokenCounter) -> int:
    schemas = [priced_schema(schema, counter).cost for schema in body.get("tools", ())]
    return sum(cost.text for cost in (*schemas, *(message_cost(message, counter) for message in body["messages"])))


@pytest.mark.parametrize(("name", "weights"), [
    ("chat", "small"), ("chat-emoji", "small"), ("chat-length", "small"), ("think-false", "small"), ("think-false-capable", "small"),
    ("num-ctx-above-native", "small"), ("after-prefill-cancel", "small"), ("second-of-two-waits", "small"),
    ("window-filled-shift-false", "smollm2"), ("window-filled-shift-true", "smollm2"),
])
def test_a_recorded_count_is_the_text_and_the_templates_marks(counters: dict[str, TokenCounter], name: str, weights: str) -> None:
    counter, (body, reported) = counters[weights], recorded(name)
    marks = MARKS * len(body["messages"]) + counter.count("<|im_start|>assistant\n")
    assert reported == text_tokens(body, counter) + marks


@pytest.mark.parametrize(("one", "other"), [("tool-two-calls", "tool-call"), ("tool-call-as-text", "tool-call-as-text-wrong-name")])
def test_two_recorded_requests_with_the_same_tools_differ_by_their_texts(counters: dict[str, TokenCounter], one: str, other: str) -> None:
    counter = counters["small"]
    (first, reported), (second, reported_second) = recorded(one), recorded(other)
    assert first["tools"] == second["tools"]
    assert len(first["messages"]) == len(second["messages"])
    assert reported - reported_second == text_tokens(first, counter) - text_tokens(second, counter)
