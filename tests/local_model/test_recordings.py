"""The requests that were sent to a real Ollama are sent to the embedded server: status, keys and frame order are the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedded_model import EmbeddedServer, embedded_server

RECORDINGS = Path(__file__).resolve().parents[1] / "data/ollama"
SAME = [
    "bad-arguments-string", "bad-json", "bad-option-type", "chat", "chat-emoji", "chat-length", "chat-not-found",
    "load", "no-body", "no-tools-capability", "num-ctx-above-native", "root", "show", "show-no-tools",
    "show-not-found", "tags", "think-false", "think-unsupported", "tool-call-as-text", "tool-call-as-text-wrong-name",
    "unload", "version", "window-filled-shift-false", "wrong-path",
]  # fmt: skip
pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with embedded_server(tmp_path_factory.mktemp("checkout"), "small", "smollm2") as running:
        yield running


def recorded(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    exchange = json.loads((RECORDINGS / f"{name}.json").read_text())
    return exchange["request"], exchange["response"]


def shape(lines: list[str]) -> list[Any]:
    """Keys and end of each frame; frames of one shape in a row count once, for their number depends on the weights."""
    shapes: list[Any] = []
    for line in lines:
        try:
            frame = json.loads(line)
        except ValueError:
            frame = {"text": line}
        frame.pop("prompt_eval_cached_count", None)  # newer than the recordings
        message = frame.get("message")
        one = (sorted(frame), sorted(message) if isinstance(message, dict) else None, frame.get("done_reason"))
        if not shapes or shapes[-1] != one:
            shapes.append(one)
    return shapes


def lines_of(response: dict[str, Any]) -> list[str]:
    return [line for at, line in response["lines"] if at != "…"]


@pytest.mark.parametrize("name", SAME)
def test_a_recorded_request_is_answered_in_the_recorded_shape(server: EmbeddedServer, name: str) -> None:
    request, response = recorded(name)
    status, content_type, lines = server.exchange(request["method"], request["path"], smaller(request["body"]))
    assert status == response["status"]
    assert content_type == response["headers"]["Content-Type"]
    assert shape(lines) == shape(lines_of(response))


def smaller(body: Any) -> Any:
    """The recordings made with the 1.5B are repeated with the 0.5B."""
    if isinstance(body, dict) and "model" in body:
        return {**body, "model": body["model"].replace("1.5b", "0.5b").replace("-bare", "")}
    return body


def test_a_prompt_longer_than_the_window_is_refused_when_cutting_is_forbidden(server: EmbeddedServer) -> None:
    request, response = recorded("overflow-truncate-false")
    words = " ".join(f"word{number}" for number in range(6000))
    body = {**request["body"], "messages": [{"role": "user", "content": words}]}
    status, _, lines = server.exchange("POST", "/api/chat", body)
    assert (status, lines) == (response["status"], lines_of(response))


def test_a_prompt_longer_than_the_window_is_cut_silently_by_default(server: EmbeddedServer) -> None:
    request, response = recorded("overflow-default")
    words = " ".join(f"word{number}" for number in range(500))
    options = {**request["body"]["options"], "num_ctx": 256}
    body = {"model": "smollm2:135m", "options": options, "messages": [{"role": "user", "content": words}]}
    status, _, lines = server.exchange("POST", "/api/chat", body)
    assert (status, shape(lines)) == (200, shape(lines_of(response)))
    assert json.loads(lines[-1])["prompt_eval_count"] <= 256


def test_a_loaded_model_is_listed_with_its_window_and_an_unloaded_one_is_not(server: EmbeddedServer) -> None:
    load, _ = recorded("load")
    server.exchange("POST", "/api/chat", load["body"])
    _, _, lines = server.exchange("GET", "/api/ps")
    loaded = json.loads(lines[0])["models"][0]
    assert sorted(loaded) == sorted(json.loads(lines_of(recorded("ps-loaded")[1])[0])["models"][0])
    assert loaded["context_length"] == load["body"]["options"]["num_ctx"]
    unload, _ = recorded("unload")
    server.exchange("POST", "/api/chat", unload["body"])
    _, _, lines = server.exchange("GET", "/api/ps")
    assert lines == lines_of(recorded("ps-empty")[1])


def test_show_lists_what_a_model_can_and_its_native_window(server: EmbeddedServer) -> None:
    for name in ("show", "show-no-tools"):
        request, response = recorded(name)
        ours = json.loads(server.exchange("POST", "/api/show", request["body"])[2][0])
        theirs = json.loads(lines_of(response)[0])
        assert ours["capabilities"] == theirs["capabilities"]
        assert ours["details"]["parameter_size"] == theirs["details"]["parameter_size"]
        assert ours["details"]["quantization_level"] == theirs["details"]["quantization_level"]
        key = f"{ours['model_info']['general.architecture']}.context_length"
        assert ours["model_info"][key] == theirs["model_info"][key]
        assert ours["model_info"]["tokenizer.ggml.tokens"] is None


def test_a_verbose_show_holds_the_whole_vocabulary(server: EmbeddedServer) -> None:
    _, _, lines = server.exchange("POST", "/api/show", {"model": "smollm2:135m", "verbose": True})
    info = json.loads(lines[0])["model_info"]
    assert {key: len(info[f"tokenizer.ggml.{key}"]) for key in ("tokens", "token_type", "merges")} == {
        "tokens": 49152,
        "token_type": 49152,
        "merges": 48900,
    }
