"""Who is let through to the one loaded model, and who need not wait for it."""

import threading
from pathlib import Path
from typing import Any

import pytest

from agent_builder.local_model.chat import answer_chat
from agent_builder.local_model.engine import Engine, Turnstile
from agent_builder.local_model.gguf import Gguf
from agent_builder.local_model.ollama_shapes import Model
from agent_builder.local_model.requests import parse_chat

MODEL = Model("m:1b", "M", Gguf(Path("w.gguf"), {"general.architecture": "a", "a.context_length": 4096}, []), "d" * 64)
WAIT_S = 20


class OneAnswer:
    """Stands in for llama.cpp: its answer ends when the test says so."""

    def __init__(self) -> None:
        self.asked, self.end = threading.Event(), threading.Event()

    def handle_chat_completions(self, _: Any, chunk: Any) -> None:
        self.asked.set()
        assert self.end.wait(WAIT_S)
        chunk({"choices": [], "timings": {"cache_n": 0, "prompt_n": 5, "predicted_n": 1}})


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> OneAnswer:
    made = OneAnswer()
    monkeypatch.setattr("agent_builder.local_model.engine._llama_server", lambda *_: made)
    return made


def ask(engine: Engine, frames: list[dict[str, Any]], *contents: str) -> threading.Thread:
    body = {"model": "m:1b", "options": {"num_ctx": 2048}, "messages": [{"role": "user", "content": text} for text in contents]}
    thread = threading.Thread(target=answer_chat, args=(engine, MODEL, parse_chat(body), frames.append, lambda: False))
    thread.start()
    return thread


def test_a_load_of_what_is_loaded_does_not_wait_for_the_answer_that_is_made_with_it(llama: OneAnswer) -> None:
    engine, answered, loaded = Engine(), list[dict[str, Any]](), list[dict[str, Any]]()
    chat = ask(engine, answered, "hello")
    assert llama.asked.wait(WAIT_S)
    ask(engine, loaded).join(WAIT_S)
    assert ([frame["done_reason"] for frame in loaded], answered) == (["load"], [])
    llama.end.set()
    chat.join(WAIT_S)
    engine.keep(0)


def test_the_last_frame_tells_that_nothing_was_cached(llama: OneAnswer) -> None:
    engine, frames = Engine(), list[dict[str, Any]]()
    llama.end.set()
    ask(engine, frames, "hello").join(WAIT_S)
    assert (frames[-1]["prompt_eval_count"], frames[-1]["prompt_eval_cached_count"]) == (5, 0)
    engine.keep(0)


def test_a_request_is_let_through_in_its_turn_unless_that_has_become_needless() -> None:
    turnstile = Turnstile()
    with turnstile.entered(lambda: False) as first, turnstile.entered(lambda: False, unless=lambda: True) as second:
        assert (first, second) == (True, False)
    with turnstile.entered(lambda: False, unless=lambda: True) as alone:
        assert alone
