"""A message goes through admission, a confined Worker, the model and back."""

import stat
from pathlib import Path

import pytest

from agent_builder.protocol.limits import BODY_BYTES, MESSAGE_BYTES
from tests.support.fake_ollama import FakeOllama, frame, frames, last, text, thinking
from tests.support.gateway import Gateway


async def test_an_answer_streams_and_is_stored_once(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("Hello 世界 👩‍👩‍👧, nice to meet you."))
    conversation = await gateway.new_conversation()
    run = await gateway.run(conversation, "hello")
    assert "".join(payload["text"] for payload in run.of("assistant.block.delta")) == run.text == "Hello 世界 👩‍👩‍👧, nice to meet you."
    assert run.terminal["type"] == "run.completed"
    assert run.terminal["payload"]["usage"]["complete"] is True
    (turn,) = (await gateway.page(conversation))["turns"]
    assert (turn["state"], turn["assistant_text"], turn["run_id"]) == ("completed", run.text, run.run_id)


async def test_every_stored_byte_is_private(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("x"))
    await gateway.run(await gateway.new_conversation(), "hello")
    await gateway.stop()  # what is stored then stays; a used Worker's folder would go while it is looked at
    for top in ("data", ".runtime"):
        for path in [gateway.root / top, *(gateway.root / top).rglob("*")]:
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"


async def test_seqs_are_contiguous_and_calls_are_paired(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("word " * 100))
    run = await gateway.run(await gateway.new_conversation(), "hello")
    assert [event["seq"] for event in run.events] == list(range(1, len(run.events) + 1))
    assert len({event["event_id"] for event in run.events}) == len(run.events)
    durable = [event["type"] for event in run.events if event["durability"] == "durable"]
    assert durable == [
        "run.started", "model.request.started", "model.transport.attempt.started", "model.transport.attempt.finished",
        "model.response.finished", "assistant.message", "run.completed",
    ]


async def test_what_a_useless_answer_took_is_told_with_the_failure(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(text("  \n"))
    run = await gateway.run(await gateway.new_conversation(), "hello")
    (finished,) = run.of("model.response.finished")
    assert run.terminal["payload"]["code"] == finished["reason"] == "model_empty_answer"
    assert run.terminal["payload"]["usage"] == finished["usage"]
    assert finished["usage"]["input"] > 0 and finished["usage"]["complete"]
    order = [event["type"] for event in run.events if event["durability"] == "durable"]
    assert order[-3:] == ["model.transport.attempt.finished", "model.response.finished", "run.failed"]


async def test_later_turns_see_earlier_ones_and_begin_with_the_same_bytes(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    for number in range(3):
        fake.script(text(f"answer {number}"))
        await gateway.run(conversation, f"question {number}")
    first, second, third = (chat["messages"] for chat in fake.chats)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert [message["content"] for message in third[1:]] == ["question 0", "answer 0", "question 1", "answer 1", "question 2"]


async def test_a_restart_keeps_what_was_said(gateway: Gateway, fake: FakeOllama) -> None:
    conversation = await gateway.new_conversation()
    fake.script(text("the word is heron"))
    before = await gateway.run(conversation, "remember it")
    await gateway.restart()
    fake.script(text("heron"))
    after = await gateway.run(conversation, "which word?")
    assert after.terminal["type"] == "run.completed"
    assert "the word is heron" in [message["content"] for message in fake.chats[-1]["messages"]]
    replayed = [event async for event in gateway.events(before.run_id)]
    assert replayed == [event for event in before.events if event["durability"] == "durable"]


async def test_the_provider_never_hears_more_than_it_should(gateway: Gateway, fake: FakeOllama) -> None:
    """And nobody else hears of the provider."""
    fake.script(text("x"))
    run = await gateway.run(await gateway.new_conversation(), "hello")
    models = (await gateway.client.get("/api/models")).text
    health = (await gateway.client.get("/health")).text
    log = (gateway.root / "gateway.log").read_text()
    for spoken in (str(run.events), models, health, log):
        assert "qwen3.5:2b" not in spoken
        assert str(fake.port) not in spoken
    assert set(fake.chats[0]) == {"model", "stream", "think", "keep_alive", "truncate", "shift", "options", "messages", "tools"}


@pytest.mark.parametrize("message", ["中" * (MESSAGE_BYTES // 3), "\\" * (BODY_BYTES // 2 - 40)], ids=["longest", "escaped"])
async def test_the_longest_message_arrives_whole(tmp_path: Path, fake: FakeOllama, message: str) -> None:
    async with Gateway(tmp_path, fake.port, profile="window_cap = 65536\n") as gateway:
        fake.script(text("read"))
        run = await gateway.run(await gateway.new_conversation(), message)
    assert run.terminal["type"] == "run.completed", run.terminal
    assert fake.chats[0]["messages"][-1]["content"] == message


async def test_thinking_is_shown_and_forgotten(gateway: Gateway, fake: FakeOllama) -> None:
    fake.script(thinking("Let me see. ", "Four."), text("x"))
    conversation = await gateway.new_conversation()
    run = await gateway.run(conversation, "2+2?")
    assert run.of("thinking.block.delta") == [{"text": "Let me see. "}]
    assert run.text == "Four."
    await gateway.run(conversation, "again")
    assert "Let me see" not in str(fake.chats[-1]["messages"])
    replay = await gateway.ok("GET", f"{gateway.agent}/runs/{run.run_id}/replay")
    assert "Let me see" not in str(replay) + str(await gateway.page(conversation))


async def test_odd_characters_pass_unchanged_and_forge_nothing(gateway: Gateway, fake: FakeOllama) -> None:
    pieces = ["\n\n\n", "    ", "if x:\r\n", "\r", "a\u2028b\u2029c\u0085d\x0b", "data: fake\n\nevent: run.completed\n\n", " : comment", "", "\ufeff", "end"]
    fake.script(frames(*(frame(content=piece) for piece in pieces), end=last(prompt=200)))
    run = await gateway.run(await gateway.new_conversation(), "odd")
    assert "".join(payload["text"] for payload in run.of("assistant.block.delta")) == "".join(pieces)
    assert run.types.count("run.completed") == 1
