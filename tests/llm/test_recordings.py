"""Every recorded exchange with a real server, played through the client or the Broker: what came of it must be what the
recording says.
"""

import asyncio
import json
from typing import Any

import pytest

from agent_builder.llm.assembly import MAX_OUTPUT_MARKER
from agent_builder.llm.broker import ProposedCall, ProviderOverflow
from agent_builder.llm.loading import check_window
from agent_builder.llm.ollama import Loaded, OllamaClient
from agent_builder.llm.usage import CheckedUsage
from agent_builder.protocol.errors import (
    ModelCapabilityMissing,
    ModelContextTruncated,
    ModelEmptyAnswer,
    ModelNotFound,
    ModelProtocol,
    ModelProviderError,
    ModelThinkingExhausted,
    RunError,
)
from agent_builder.protocol.limits import FIRST_FRAME_S
from agent_builder.protocol.model_profile import Timeouts
from tests.llm.bench import READ, STAT, bench, passes, profile, rendered, until, waiting
from tests.support.clock import MovableClock
from tests.support.fake_ollama import RECORDINGS, FakeOllama, Gate, gated, hang, replay, status

NOTES: dict[str, object] = {"path": "notes.md"}

ANSWERS: dict[str, tuple[str, str, int, int]] = {  # reason, beginning of the text, tokens in and out
    "chat": ("stop", "Hello", 25, 10),
    "chat-emoji": ("stop", "你好 😊 是 <b>&</b>", 21, 11),
    "chat-length": ("max_output", "One", 16, 8),
    "num-ctx-above-native": ("max_output", "#", 9, 4),
    "second-of-two-waits": ("max_output", "R", 14, 40),
    "after-prefill-cancel": ("max_output", "# Hello Again", 10, 4),
    "think-false": ("stop", "#", 9, 39),
    "think-false-capable": ("stop", "To determine", 34, 146),
    "think-true": ("stop", "To find", 51, 64),
    "think-unset": ("stop", "To find", 51, 64),
    "tool-result": ("stop", "notes.md says: The meeting moved to Tuesday.", 359, 11),
    "window-filled-shift-false": ("max_output", "The River", 26, 231),
    "window-filled-shift-true": ("stop", "The River", 26, 371),
}
FAULTS: dict[str, type[RunError]] = {
    "bad-arguments-string": ModelProtocol,
    "bad-json": ModelProtocol,
    "no-body": ModelProtocol,
    "bad-option-type": ModelProviderError,
    "chat-not-found": ModelNotFound,
    "no-tools-capability": ModelCapabilityMissing,
    "think-unsupported": ModelCapabilityMissing,
    "overflow-truncate-false": ProviderOverflow,
    "runner-died": ModelProviderError,
    "unload": ModelEmptyAnswer,
    "think-length": ModelThinkingExhausted,
    "cancel": ModelProtocol,  # the recording ends where its client went away: without a final frame
}
CALLS: dict[str, tuple[ProposedCall, ...]] = {
    "tool-call": (ProposedCall("file/read_text", "file_read_text", NOTES, None, False),),
    "tool-two-calls": (
        ProposedCall("file/stat", "file_stat", {"path": "a.md"}, None, False),
        ProposedCall("file/read_text", "file_read_text", {"path": "b.md"}, None, False),
    ),
    "tool-call-as-text": (
        ProposedCall("file/read_text", "file_read_text", None, "file_read_text: path must be of type string", True),
    ),
    "tool-call-as-text-wrong-name": (
        ProposedCall("", "Read the file notes.md", None, "'Read the file notes.md' is not one of the tools", True),
    ),
    "tool-not-offered-as-text": (ProposedCall("", "file_read_text", None, "'file_read_text' is not one of the tools", True),),
}
DISCOVERY = {
    "version", "tags", "show", "show-no-tools", "show-thinking", "show-not-found", "ps-empty", "ps-loaded", "ps-1024", "ps-clamped",
    "ps-after-aborted-load", "root", "wrong-path",
}
LOADING = {"load"}
TRUNCATED = {"overflow-default"}


def recorded(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


def body(name: str) -> Any:
    return json.loads(recorded(name)["response"]["lines"][0][1])


def test_no_recording_is_left_out() -> None:
    names = {path.stem for path in RECORDINGS.glob("*.json")}
    assert names == ANSWERS.keys() | FAULTS.keys() | CALLS.keys() | DISCOVERY | LOADING | TRUNCATED


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_recorded_answer(name: str) -> None:
    reason, beginning, prompt, output = ANSWERS[name]
    with FakeOllama() as fake:
        fake.script(replay(name))
        async with bench(fake) as asking:
            answer = await asking.ask()
            usage = answer.usage
            assert (answer.reason, usage.complete, usage.input, usage.output) == (reason, True, prompt, output)
            assert answer.text.startswith(beginning)
            assert answer.text.endswith(MAX_OUTPUT_MARKER) == (reason == "max_output")
            assert bool(asking.thoughts) == (name in ("think-true", "think-unset"))
            assert asking.text == answer.text


@pytest.mark.parametrize("name", FAULTS)
async def test_a_recorded_fault(name: str) -> None:
    with FakeOllama() as fake:
        fake.script(replay(name), replay(name))
        async with bench(fake) as asking:
            with pytest.raises(FAULTS[name]) as caught:
                await asking.ask(tools=[READ])
            assert type(caught.value) is FAULTS[name]


@pytest.mark.parametrize("name", CALLS)
async def test_a_recorded_call(name: str) -> None:
    offered = [STAT] if name == "tool-not-offered-as-text" else [READ, STAT]
    with FakeOllama() as fake:
        fake.script(replay(name))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=offered)
            assert (answer.calls, asking.texts) == (CALLS[name], [])


async def test_the_recorded_load_answer_loads() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            model = await asking.model()
            fake.load_step = replay("load")
            await asking.models.reload(model)
        assert fake.loads[0]["messages"] == []


@pytest.mark.parametrize(("exact", "words"), [(True, 3000), (False, 4000)])
async def test_the_recorded_silent_cut_is_noticed_where_the_prompt_is_long_enough_to_tell(exact: bool, words: int) -> None:
    prompt = " ".join(f"word{number}" for number in range(words)) + " What is the secret?"
    with FakeOllama() as fake:
        fake.script(replay("overflow-default"))
        async with bench(fake) as asking:
            with pytest.raises(ModelContextTruncated) as caught:
                await asking.ask(request=rendered(prompt, system="The secret is 42.", exact=exact))
            seen = caught.value.details["usage"]
            assert isinstance(seen, CheckedUsage)
            assert seen.input == 1024


def silent_s(name: str) -> float:
    """Seconds that the recorded server was silent before its first frame."""
    return float(recorded(name)["response"]["lines"][0][0]) / 1000


async def test_the_recorded_wait_behind_a_cancelled_prompt_is_no_timeout() -> None:
    assert silent_s("after-prefill-cancel") > FIRST_FRAME_S
    with FakeOllama() as fake:
        gate = Gate()
        fake.script(hang(), gated(gate, replay("after-prefill-cancel")))
        async with bench(fake) as asking:
            first = await waiting(asking, fake)
            await passes(asking, 1.5)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            second = asyncio.ensure_future(asking.ask())
            await until(lambda: asking.stages[-1] == "cancelled_prompt")
            await passes(asking, silent_s("after-prefill-cancel"))
            assert not second.done()
            gate.open()
            assert (await second).text.startswith("# Hello Again")
            assert asking.attempts == ["first_frame"]


async def test_the_recorded_second_of_two_waits_without_its_own_clock() -> None:
    wait = silent_s("second-of-two-waits")
    with FakeOllama(one_slot=True) as fake:
        gate = Gate()
        fake.script(gated(gate, replay("chat")), replay("second-of-two-waits"))
        async with bench(fake, timeouts=Timeouts(first_frame_s=2 * wait, call_s=4 * wait)) as asking:
            first = await waiting(asking, fake)
            await passes(asking, wait)
            second = asyncio.ensure_future(asking.ask())
            await until(lambda: len(asking.stages) == 2)
            await passes(asking, 0.9 * wait)
            gate.open()
            await first
            assert (await second).text.startswith("R")
            assert asking.attempts == ["first_frame"] * 2


async def test_recorded_descriptions_qualify() -> None:
    with FakeOllama(model="qwen2.5-coder:0.5b") as fake:
        fake.models[fake.model].show = body("show")
        async with bench(fake) as asking:
            model = await asking.model()
            assert (model.native_window, model.window, model.capabilities) == (32768, 32768, ("completion", "tools"))
            assert (model.estimator, model.estimator_reason, model.tools) == ("gguf-bpe-v1", None, True)


async def test_a_recorded_description_without_tools_fails_an_entry_that_wants_them() -> None:
    with FakeOllama(model="smollm2:135m") as fake:
        fake.models[fake.model].show = body("show-no-tools")
        async with bench(fake) as asking:
            with pytest.raises(ModelCapabilityMissing):
                await asking.model()
        async with bench(fake, tools=False) as asking:
            model = await asking.model()
            assert (model.tools, model.window, model.estimator) == (False, 8192, "gguf-bpe-v1")


async def test_a_recorded_thinking_model_may_be_asked_to_think() -> None:
    with FakeOllama(model="think:1.5b") as fake:
        fake.models[fake.model].show = body("show-thinking")
        async with bench(fake, think=True) as asking:
            assert "thinking" in (await asking.model()).capabilities


@pytest.mark.parametrize(("name", "loaded"), [
    ("ps-empty", None), ("ps-after-aborted-load", None),
    ("ps-loaded", Loaded("2767c1f843ab641072c6c85dd346550879cebac4d665e727045dcf2833cdfd17", 4096)),
    ("ps-1024", None), ("ps-clamped", Loaded("cbafa047bf6bd33fc14c55ee299841a845fc3ae3e7d0b6f1fd8f292a6422189b", 32768)),
])
async def test_what_recorded_servers_have_in_memory(name: str, loaded: Loaded | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOllama(model="qwen2.5-coder:0.5b") as fake:
        async def play(answer: Any, *_: Any) -> None:
            await status(200, body(name))(answer, {})

        monkeypatch.setattr(fake, "_question", play)
        client = OllamaClient(MovableClock())
        found = await client.loaded(profile(fake))
        if name == "ps-1024":
            assert found is not None
            assert found.window == 1024
        else:
            assert found == loaded


@pytest.mark.parametrize(("name", "reason"), [("ps-1024", "a window of 1024 tokens where 32768 are planned"), ("ps-clamped", None)])
async def test_a_recorded_small_window_disables_the_entry(name: str, reason: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOllama(model="qwen2.5-coder:0.5b") as fake:
        async with bench(fake) as asking:
            model = await asking.model()

            async def play(answer: Any, *_: Any) -> None:
                await status(200, body(name))(answer, {})

            monkeypatch.setattr(fake, "_question", play)
            await asking.models.reload(model)
            shown = asking.models.public()[0]
            assert shown.available is (reason is None)
            assert reason is None or reason in (shown.reason or "")
            assert check_window(model, Loaded("", None)) is None


async def test_recorded_tags_and_version_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOllama(model="smollm2:135m") as fake:
        async def play(answer: Any, method: str, path: str, _: Any) -> None:
            await status(200, body({"/api/tags": "tags", "/api/version": "version"}[path]))(answer, {})

        monkeypatch.setattr(fake, "_question", play)
        client = OllamaClient(MovableClock())
        assert await client.installed_digest(profile(fake)) == "69a2f967439c04c80504a4c2dee940ef1761b74cb45c4173aa2e8e181eabfb9f"
        assert await client.version(profile(fake)) == "0.0.0"


@pytest.mark.parametrize(("name", "error"), [("show-not-found", ModelNotFound), ("wrong-path", ModelNotFound), ("root", ModelProtocol)])
async def test_recorded_answers_of_something_else(name: str, error: type[RunError], monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOllama() as fake:
        async def play(answer: Any, *_: Any) -> None:
            await replay(name)(answer, {})

        monkeypatch.setattr(fake, "_question", play)
        with pytest.raises(error):
            await OllamaClient(MovableClock()).show(profile(fake))
