"""What is found out about catalog entries, when it is found out again, and how a model is loaded."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_builder.llm.catalog import Catalog
from agent_builder.llm.entries import PublicModel
from agent_builder.llm.models import Models
from agent_builder.llm.qualification import output_reserve
from agent_builder.protocol.errors import (
    InvalidRequest,
    ModelCapabilityMissing,
    ModelContextTruncated,
    ModelNotFound,
    ModelProtocol,
    ModelTransportTimeout,
    ModelUnavailable,
    RunError,
)
from agent_builder.protocol.limits import LOAD_S, LOOK_AGAIN_S, METADATA_S, UNHEALTHY_PROBE_S
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.request import TokenCounter
from tests.llm.bench import READ, Bench, bench, profile, rendered
from tests.support.clock import MovableClock
from tests.support.fake_ollama import FakeOllama, Gate, dropped, frames, gated, hang, last, status, text

VOCABULARY: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2",
    "tokenizer.ggml.tokens": [chr(code) for code in range(33, 127)] + ["Ġ", "ab", "<|im_start|>"],
    "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.token_type": [1] * 96 + [3],
}


async def test_windows_and_reserves_follow_from_what_the_server_tells() -> None:
    with FakeOllama(window=262144) as fake:
        async with bench(fake) as asking:
            model = await asking.model()
            assert (model.native_window, model.window, model.output_reserve, model.input_budget) == (262144, 32768, 4096, 28672)
            assert (model.digest, model.tools, model.estimator) == ("ab" * 32, True, "utf8-bytes-upper-bound-v1")
            assert model.estimator_reason == "the model server does not tell the model's tokenizer"


@pytest.mark.parametrize(("window", "cap", "reserve"), [
    (32768, 4096, 4096), (32768, 2048, 2048), (8192, 4096, 1024), (2048, 4096, 1024), (1024, 4096, 512), (262144, 32768, 32768), (1500, 4096, 750),
])
def test_the_output_reserve(window: int, cap: int, reserve: int) -> None:
    assert output_reserve(window, cap) == reserve


@pytest.mark.parametrize("window", [0, -1, "32768", 1.5, True, 1 << 40, None, [4096]])
async def test_a_window_that_cannot_be_true_fails_qualification(window: Any) -> None:
    with FakeOllama() as fake:
        fake.show["model_info"]["qwen35.context_length"] = window
        async with bench(fake) as asking:
            with pytest.raises(ModelProtocol, match="how large"):
                await asking.model()


async def test_the_only_window_told_is_taken_whatever_its_key() -> None:
    with FakeOllama() as fake:
        fake.show["model_info"] = {"other.context_length": 4096}
        async with bench(fake) as asking:
            assert (await asking.model()).window == 4096


@pytest.mark.parametrize(("changes", "capabilities"), [
    ({}, ("tools",)), ({}, ("completion",)), ({"think": True}, ("completion", "tools")), ({"tools": False}, ("embedding",)),
])
async def test_a_capability_that_is_missing_fails_qualification(changes: Any, capabilities: tuple[str, ...]) -> None:
    with FakeOllama(capabilities=capabilities) as fake:
        async with bench(fake, **changes) as asking:
            with pytest.raises(ModelCapabilityMissing):
                await asking.model()


async def test_a_server_that_tells_no_capabilities_is_believed() -> None:
    with FakeOllama(capabilities=None) as fake:
        async with bench(fake) as asking:
            assert (await asking.model()).capabilities == ("completion", "tools")


async def test_a_model_without_tools_is_used_without_them() -> None:
    with FakeOllama(capabilities=("completion",)) as fake:
        async with bench(fake, tools=False) as asking:
            assert (await asking.model()).tools is False


@pytest.mark.parametrize("where", [{"remote_host": "https://cloud"}, {"remote_model": "big"}])
async def test_a_model_on_another_machine_is_refused(where: dict[str, str]) -> None:
    with FakeOllama() as fake:
        fake.show.update(where)
        async with bench(fake) as asking:
            with pytest.raises(ModelCapabilityMissing, match="another machine"):
                await asking.model()


async def test_a_digest_may_be_missing() -> None:
    with FakeOllama(missing={"/api/version"}) as fake:
        fake.models[fake.model].digest = None  # type: ignore[assignment]
        async with bench(fake) as asking:
            assert len((await asking.model()).digest) == 64


async def test_a_list_of_models_may_be_null(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOllama() as fake:
        ask = fake._question

        async def play(answer: Any, method: str, path: str, body: Any) -> None:
            null = path in ("/api/tags", "/api/ps")
            await (status(200, {"models": None})(answer, body) if null else ask(answer, method, path, body))

        monkeypatch.setattr(fake, "_question", play)
        async with bench(fake) as asking:
            model = await asking.model()
            assert len(model.digest) == 64
            assert await asking.models.client.loaded(model.profile) is None


async def test_a_description_without_model_info_fails_qualification() -> None:
    with FakeOllama() as fake:
        del fake.show["model_info"]
        async with bench(fake) as asking:
            with pytest.raises(ModelProtocol, match="how large"):
                await asking.model()


async def test_the_start_sentence_says_what_was_tried_and_what_to_do() -> None:
    with FakeOllama() as fake:
        async with bench(fake, provider_model="missing:1b") as asking:
            with pytest.raises(ModelNotFound) as caught:
                await asking.models.qualify_default()
            for part in ("'test'", "'missing:1b'", fake.url, "config/models.toml", "./start.sh --local-model"):
                assert part in caught.value.message
    async with bench(fake) as asking:
        with pytest.raises(ModelUnavailable):
            await asking.models.qualify_default()


async def test_a_server_that_does_not_answer_small_questions_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            gate = Gate()

            async def silent(answer: Any, *_: Any) -> None:
                fake._note(fake.questions, ("POST", "/api/show"))
                await answer.unless_gone(gate.wait())

            monkeypatch.setattr(fake, "_show", silent)
            asked = asyncio.ensure_future(asking.model())
            await fake.questioned("/api/show")
            asking.clock.advance(METADATA_S)
            with pytest.raises(ModelTransportTimeout):
                await asked


async def test_the_list_for_browsers_names_no_endpoint() -> None:
    with FakeOllama() as fake:
        fake.add_model("small:1b", ("completion",), 4096)
        small = replace(profile(fake, tools=False), model_id="small", label="Small", provider_model="small:1b")
        gone = replace(small, model_id="gone", provider_model="gone:1b")
        off = replace(small, model_id="off", enabled=False)
        models = Models(Catalog("test", (profile(fake), small, gone, off)), MovableClock(), Path("/nonexistent"))
        await models.qualify_default()
        await models.qualify_others()
        reason = "the model server does not tell the model's tokenizer"
        counted = ("utf8-bytes-upper-bound-v1", reason)
        assert models.public() == [
            PublicModel("test", "Test", ("completion", "tools"), 32768, 4096, True, None, True, *counted),
            PublicModel("small", "Small", ("completion",), 4096, 4096, True, None, False, *counted),
            PublicModel("gone", "Small", (), 32768, 4096, False, "The model server does not have this model.", False, None, None, "model_not_found"),
            PublicModel("off", "Small", (), 32768, 4096, False, "This model is switched off in the catalog.", False, None, None, "switched_off"),
        ]
        assert (await models.qualified("small")).window == 4096
        with pytest.raises(ModelUnavailable):
            await models.qualified("off")
        with pytest.raises(ModelNotFound):
            await models.qualified("gone")
        with pytest.raises(ModelNotFound):
            await models.qualified("removed")
        with pytest.raises(InvalidRequest):
            models.profile("removed")
        assert models.profile(None).model_id == "test"
        models.disable("small", "Too small for the tools.")
        with pytest.raises(ModelUnavailable, match="Too small"):
            await models.qualified("small")
        await models.close()


async def test_an_entry_is_probed_once_and_again_when_it_was_unhealthy_for_a_minute() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            def probes() -> int:
                return len([path for _, path in fake.questions if path == "/api/show"])

            await asking.model()
            await asking.model()
            assert probes() == 1
            asking.models.circuits.failed("test")
            asking.clock.advance(UNHEALTHY_PROBE_S - 1)
            await asking.model()
            assert probes() == 1
            asking.clock.advance(1)
            await asking.model()
            assert probes() == 2
            await asking.ask()
            before = probes()
            await asking.model()
            assert probes() == before


@pytest.mark.parametrize("enabled", [True, False])
async def test_an_entry_that_was_not_there_is_looked_for_again_once_a_minute(enabled: bool) -> None:
    with FakeOllama() as fake:
        clock = MovableClock()
        late = replace(profile(fake), model_id="late", provider_model="late:1b", enabled=enabled)
        models = Models(Catalog("test", (profile(fake), late)), clock, Path("/nonexistent"))
        await models.qualify_others()
        fake.add_model("late:1b")

        async def seen_after(seconds: float) -> bool:
            clock.advance(seconds)
            await models.look_again()
            return models.public()[1].available

        assert not await seen_after(UNHEALTHY_PROBE_S - 1)
        assert await seen_after(1) is enabled
        await models.close()


async def test_looking_again_waits_only_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeOllama() as fake:
        clock, gate = MovableClock(), Gate()
        models = Models(Catalog("test", (profile(fake, provider_model="late:1b"),)), clock, Path("/nonexistent"))
        await models.qualify_others()
        clock.advance(UNHEALTHY_PROBE_S)

        async def silent(answer: Any, *_: Any) -> None:
            fake._note(fake.questions, ("POST", "asked again"))
            await answer.unless_gone(gate.wait())

        monkeypatch.setattr(fake, "_show", silent)
        looking = asyncio.ensure_future(models.look_again())
        await fake.questioned("asked again")
        clock.advance(LOOK_AGAIN_S)
        await looking
        assert not models.public()[0].available
        await models.close()


@pytest.mark.parametrize(("vocabulary", "available"), [(None, False), (VOCABULARY, True)])
async def test_an_entry_without_room_for_an_ordinary_message_is_disabled_when_it_is_qualified(
    vocabulary: Any, available: bool, tmp_path: Path
) -> None:
    def window_fault(model: QualifiedModel, counter: TokenCounter) -> str | None:
        return None if counter.exact else f"no room in {model.window} tokens"

    with FakeOllama() as fake:
        fake.add_model("other:1b", window=2048, vocabulary=vocabulary)
        other = replace(profile(fake), model_id="other", provider_model="other:1b")
        models = Models(Catalog("test", (profile(fake), other)), MovableClock(), tmp_path, window_fault)
        await models.qualify_default()
        await models.qualify_others()
        reason = None if available else "no room in 2048 tokens"
        assert [(one.available, one.reason) for one in models.public()] == [(True, None), (available, reason)]
        await models.close()


# loading -----------------------------------------------------------------------------------------------------------

WARM_UP = rendered(".", tools=[READ])


async def test_loading_reads_the_prefix_and_makes_the_state_ready() -> None:
    with FakeOllama() as fake:
        fake.loaded = False
        async with bench(fake) as asking:
            assert asking.models.state == "loading"
            stages: list[str] = []

            async def on_stage(stage: str) -> None:
                stages.append(stage)

            model = await asking.model()
            await asking.models.load(model, WARM_UP, on_stage)
            assert (asking.models.state, stages) == ("ready", ["loading_model"])
            (body,) = fake.warm_ups
            assert (body["options"]["num_predict"], body["options"]["num_ctx"], body["tools"]) == (1, 32768, list(WARM_UP.tools))
            assert body["messages"][-1] == {"role": "user", "content": "."}
            assert asking.broker.estimate(model, rendered("hello", tools=[READ])).uncached == 2


async def test_a_turn_waits_for_the_load_in_a_stage_of_its_own() -> None:
    with FakeOllama() as fake:
        gate = Gate()
        fake.warm_up = gated(gate, frames(end=last("length")))
        async with bench(fake, streams=1) as asking:
            model = await asking.model()
            loading = asyncio.ensure_future(asking.models.load(model, WARM_UP))
            while not fake.warm_ups:
                await asyncio.sleep(0)
            asked = asyncio.ensure_future(asking.ask())
            while asking.stages != ["loading_model"]:
                await asyncio.sleep(0)
            assert fake.chats == []
            gate.open()
            assert (await asked).text == "ok"
            await loading


async def test_a_load_is_given_ten_minutes_and_then_the_state_is_degraded() -> None:
    with FakeOllama() as fake:
        fake.warm_up = hang()
        async with bench(fake) as asking:
            loading = asyncio.ensure_future(asking.models.load(await asking.model(), WARM_UP))
            while not fake.warm_ups:
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            asking.clock.advance(LOAD_S - 1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not loading.done()
            asking.clock.advance(1)
            await loading
            assert (asking.models.state, asking.models.public()[0].available) == ("degraded", False)
            assert (await asking.ask()).text == "ok"
            assert asking.models.state == "ready"


@pytest.mark.parametrize("step", [status(400, {"error": "no user query"}), status(500, {"error": "template"}), status(400, {"error": "does not support tools"})])
async def test_an_error_answer_to_the_warm_up_is_no_failure(step: Any) -> None:
    with FakeOllama() as fake:
        fake.warm_up = step
        async with bench(fake) as asking:
            await asking.models.load(await asking.model(), WARM_UP)
            assert (asking.models.state, len(fake.loads)) == ("ready", 1)


async def test_a_server_that_drops_the_load_leaves_the_state_degraded() -> None:
    with FakeOllama() as fake:
        fake.warm_up = dropped()
        async with bench(fake) as asking:
            await asking.models.load(await asking.model(), WARM_UP)
            assert asking.models.state == "degraded"


@pytest.mark.parametrize(("allocated", "state"), [(32768, "ready"), (32767, "degraded")])
async def test_a_smaller_window_than_planned_disables_the_entry(allocated: int, state: str) -> None:
    with FakeOllama(allocated=allocated) as fake:
        async with bench(fake) as asking:
            await asking.models.load(await asking.model(), WARM_UP)
            assert asking.models.state == state
            if state == "degraded":
                with pytest.raises(ModelUnavailable, match="32767 tokens where 32768 are planned"):
                    await asking.model()


async def test_another_clients_window_seen_at_a_later_load_disables_nothing() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            model = await asking.model()
            await asking.models.load(model, WARM_UP)
            fake.allocated = 4096
            await asking.models.reload(model)
            assert asking.models.public()[0].available


async def test_other_entries_are_probed_while_the_default_loads() -> None:
    with FakeOllama() as fake:
        other = replace(profile(fake), model_id="other", provider_model="gone:1b")
        models = Models(Catalog("test", (profile(fake), other)), MovableClock(), Path("/nonexistent"))
        await models.load(await models.qualified(None), WARM_UP)
        assert [model.available for model in models.public()] == [True, False]
        await models.close()


# counting ----------------------------------------------------------------------------------------------------------


async def test_a_model_that_tells_its_vocabulary_is_counted_exactly(tmp_path: Path) -> None:
    with FakeOllama(vocabulary=VOCABULARY) as fake:
        async with bench(fake, cache=tmp_path / "cache") as asking:
            model = await asking.model()
            assert (model.estimator, model.estimator_reason) == ("gguf-bpe-v1", None)
            counter = await asking.models.counter(model)
            assert (counter.name, counter.exact, counter.count("abba<|im_start|>ab")) == ("gguf-bpe-v1", True, 5)
            assert await asking.models.counter(model) is counter
        questions = len(fake.questions)
        async with bench(fake, cache=tmp_path / "cache") as again:
            assert (await again.models.counter(await again.model())).count("abba") == 3
        assert [path for _, path in fake.questions[questions:]] == ["/api/show", "/api/tags", "/api/version"]


@pytest.mark.parametrize(("change", "reason"), [
    ({"tokenizer.ggml.pre": "unheard-of"}, "pre-tokenizer 'unheard-of' is not known"),
    ({"tokenizer.ggml.model": "llama"}, "tokenizer kind 'llama' is not byte-level BPE"),
])
async def test_an_unknown_tokenizer_is_counted_in_bytes(change: dict[str, str], reason: str) -> None:
    with FakeOllama(vocabulary={**VOCABULARY, **change}) as fake:
        async with bench(fake) as asking:
            model = await asking.model()
            assert (model.estimator, model.estimator_reason) == ("utf8-bytes-upper-bound-v1", reason)
            assert (await asking.models.counter(model)).count("中") == 3


async def test_the_catalog_may_ask_for_bytes() -> None:
    with FakeOllama(vocabulary=VOCABULARY) as fake:
        async with bench(fake, estimator="bytes") as asking:
            assert (await asking.model()).estimator == "utf8-bytes-upper-bound-v1"


@pytest.mark.parametrize("broken", [{"tokenizer.ggml.merges": ["a q q"]}, {"tokenizer.ggml.tokens": []}, {"tokenizer.ggml.merges": ["no such"]}])
async def test_a_vocabulary_that_does_not_fit_falls_back_with_the_reason(broken: Any, tmp_path: Path) -> None:
    with FakeOllama(vocabulary={**VOCABULARY, **broken}) as fake:
        async with bench(fake, cache=tmp_path) as asking:
            model = await asking.model()
            assert (await asking.models.counter(model)).name == "utf8-bytes-upper-bound-v1"
            found = await asking.model()
            assert found.estimator == "utf8-bytes-upper-bound-v1"
            assert "vocabulary" in (found.estimator_reason or "")
            asking.models.mark_stale("test")
            assert (await asking.model()).estimator == "utf8-bytes-upper-bound-v1"


@pytest.mark.parametrize(("observed", "exact"), [(0, True), (-200, False), (400, False)])
async def test_the_load_request_proves_the_exact_count(observed: int, exact: bool, tmp_path: Path) -> None:
    warm_up = rendered(".", system="word and " * 100, exact=True)
    with FakeOllama(vocabulary=VOCABULARY) as fake:
        fake.warm_up = frames(end=last("length", prompt=warm_up.text_tokens + observed, output=1))
        async with bench(fake, cache=tmp_path) as asking:
            await asking.models.load(await asking.model(), warm_up)
            model = await asking.model()
            assert (model.estimator == "gguf-bpe-v1") == exact
            assert exact or "the server counted" in (model.estimator_reason or "")


@pytest.mark.parametrize(("reported", "exact"), [(1600, True), (1100, False), (2500, False)])
async def test_the_first_answer_of_any_entry_proves_its_exact_counts(reported: int, exact: bool, tmp_path: Path) -> None:
    request = rendered("word and " * 700, exact=True)
    with FakeOllama(vocabulary=VOCABULARY) as fake:
        fake.script(text("first", end=last(prompt=reported)), text("second", end=last(prompt=1100)))
        async with bench(fake, cache=tmp_path) as asking:
            assert (await asking.ask(request=request)).text == "first"
            assert ((await asking.model()).estimator == "gguf-bpe-v1") is exact
            if exact:
                with pytest.raises(ModelContextTruncated):
                    await asking.ask(request=request)
            else:
                assert "the server counted" in ((await asking.model()).estimator_reason or "")
                assert (await asking.ask(request=request)).text == "second"


async def test_what_was_learnt_about_a_template_disproves_no_exact_count(tmp_path: Path) -> None:
    whole = rendered("word and " * 700, exact=True)
    request = replace(whole, admission_tokens=whole.text_tokens)
    with FakeOllama(vocabulary=VOCABULARY) as fake:
        fake.script(text("first", end=last(prompt=request.text_tokens + 1)))
        async with bench(fake, cache=tmp_path) as asking:
            await asking.ask(request=request)
            assert (await asking.model()).estimator == "gguf-bpe-v1"


@pytest.mark.parametrize(("in_memory", "learnt"), [(False, True), (True, False)])
async def test_a_load_tells_the_speed_only_where_the_server_had_read_nothing(in_memory: bool, learnt: bool) -> None:
    with FakeOllama() as fake:
        fake.loaded = in_memory
        fake.warm_up = frames(end=last("length", prompt=1302, prompt_eval_duration=30_000_000, output=1))
        async with bench(fake) as asking:
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 40.0)
            await asking.models.load(await asking.model(), rendered(".", system="x" * 4 * 1300, tools=[READ]))
            rate = asking.models.prefill.rate("test", "utf8-bytes-upper-bound-v1")
            assert rate is not None
            assert (rate != 40.0) is learnt


async def test_a_turn_of_another_model_does_not_pay_for_the_load() -> None:
    with FakeOllama(one_slot=True) as fake:
        gate = Gate()
        fake.warm_up = gated(gate, frames(end=last("length")))
        fake.add_model("other:1b")
        other = replace(profile(fake), model_id="other", provider_model="other:1b")
        clock = MovableClock()
        models = Models(Catalog("test", (profile(fake), other)), clock, Path("/nonexistent"))
        asking = Bench(models, clock)
        loading = asyncio.ensure_future(models.load(await models.qualified(None), WARM_UP))
        while not fake.warm_ups:
            await asyncio.sleep(0)
        asked = asyncio.ensure_future(asking.ask(model=await models.qualified("other")))
        await fake.questioned("/api/ps")
        while not asking.stages:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        clock.advance(300)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asked.done()
        gate.open()
        assert (await asked).text == "ok"
        await loading
        await models.close()


async def test_a_reason_to_take_an_entry_out_of_use_outlasts_its_load() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            model = await asking.model()
            asking.models.disable("test", "Too small for the tools.")
            await asking.models.load(model, WARM_UP)
            assert (asking.models.state, asking.models.public()[0].reason) == ("degraded", "Too small for the tools.")


async def test_every_failed_probe_is_a_run_error() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            fake.missing = {"/api/show"}
            with pytest.raises(RunError):
                await asking.model()
            fake.missing = set()
            assert (await asking.model()).window == 32768
