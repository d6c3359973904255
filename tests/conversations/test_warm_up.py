"""The beginning that all requests share, and the smallest window that is of use."""

import re
from pathlib import Path

import pytest

from agent_builder.context.compiler import render_call
from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.conversations.planning import window_fault
from agent_builder.conversations.warm_up import warm_up_request
from tests.support.conversing import conversing
from tests.support.fake_ollama import FakeOllama
from tests.support.plans import EXACT_COUNTER, a_model


async def test_the_first_request_of_a_conversation_begins_with_the_warmed_prefix(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        file = talk.workspace / "agent-builder.md"
        file.write_text("Be brief.")
        file.chmod(0o600)
        admitted = await talk.admit("say hi")
        warmed = await warm_up_request(talk.workspace, admitted.model, admitted.counter, talk.clock)
        first = render_call(admitted.plan, (), with_tools=True, finalize=False, counter=admitted.counter)
        assert warmed.prefix_digests[:-1] == first.prefix_digests[:-1]
        assert warmed.messages[-1] == {"role": "user", "content": "."}
        assert warmed.tools == first.tools


async def test_instructions_that_cannot_be_used_do_not_prevent_a_warm_up(tmp_path: Path, fake: FakeOllama):
    async with conversing(tmp_path, fake) as talk:
        file = talk.workspace / "agent-builder.md"
        file.write_text("i" * 20000)
        file.chmod(0o600)
        model, counter = await talk.admission.planning.model(None)
        warmed = await warm_up_request(talk.workspace, model, counter, talk.clock)
        assert "iiii" not in warmed.messages[0]["content"]
        file.chmod(0o666)
        assert await warm_up_request(talk.workspace, model, counter, talk.clock) == warmed


@pytest.mark.parametrize(("window", "counter", "tools"), [(8192, BYTES_COUNTER, True), (4096, EXACT_COUNTER, True), (8192, BYTES_COUNTER, False)])
def test_a_usual_window_holds_an_ordinary_message_with_all_tools(window, counter, tools):
    assert window_fault(a_model(window, tools=tools), counter) is None


def test_a_window_too_small_is_told_with_the_numbers():
    fault = window_fault(a_model(4096), BYTES_COUNTER)
    assert fault is not None
    assert re.fullmatch(r"a message of 2000 bytes with all tools needs \d{4} tokens of 2304 free ones; the window is too small", fault)
