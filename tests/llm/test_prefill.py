"""What finished calls teach: how fast a model reads, and what its server has kept of a prompt."""

import asyncio

import pytest

from agent_builder.llm.prefill import Estimate
from agent_builder.llm.usage import CheckedUsage
from tests.llm.bench import READ, bench, rendered, waiting
from tests.support.fake_ollama import FakeOllama, Gate, begun, dropped, gated, hang, last, text


async def test_the_rate_comes_from_the_part_that_was_not_cached() -> None:
    with FakeOllama() as fake:
        second = 10**9
        fake.script(
            text("a", end=last(prompt=1000, prompt_eval_duration=10 * second)),
            text("b", end=last(prompt=1100, prompt_eval_duration=1 * second)),
        )
        async with bench(fake) as asking:
            one = rendered("x" * 4 * 799, exact=True)
            asking.models.prefill.emptied(await asking.model())
            first = (await asking.ask(request=one)).usage
            assert first == CheckedUsage(1000, 5, True, 1000, 10.0)
            assert asking.broker.estimate(await asking.model(), one) == Estimate(1, 1 / (one.text_tokens / 10), True)
            two = rendered("x" * 4 * 799, "y" * 4 * 99, exact=True)
            assert asking.broker.estimate(await asking.model(), two).uncached == 100
            usage = (await asking.ask(request=two)).usage
            assert (usage.evaluated, usage.evaluate_s) == (round(1100 * 100 / two.text_tokens), 1.0)
            assert asking.models.prefill.rate("test", "gguf-bpe-v1") == (one.text_tokens / 10 + 100) / 2


async def test_a_lost_prefix_is_not_taken_for_a_slow_model() -> None:
    with FakeOllama() as fake:
        second = 10**9
        fake.script(text("a", end=last(prompt=1000, prompt_eval_duration=10 * second)), text("b", end=last(prompt=1100, prompt_eval_duration=11 * second)))
        async with bench(fake) as asking:
            asking.models.prefill.emptied(await asking.model())
            await asking.ask(request=rendered("x" * 4 * 799, exact=True))
            usage = (await asking.ask(request=rendered("x" * 4 * 799, "y" * 4 * 99, exact=True))).usage
            assert usage.evaluated == 1100
            rate = asking.models.prefill.rate("test", "gguf-bpe-v1")
            assert rate is not None
            assert rate > 80


async def test_a_told_cached_count_is_believed() -> None:
    with FakeOllama() as fake:
        fake.script(text("a", end=last(prompt=1000, prompt_eval_cached_count=900, prompt_eval_duration=10**9)))
        async with bench(fake) as asking:
            assert (await asking.ask("x" * 4000)).usage.evaluated == 100


async def test_nothing_is_learnt_from_a_prompt_that_the_server_may_have_read_before() -> None:
    with FakeOllama() as fake:
        fake.script(text("a", end=last(prompt=1302, prompt_eval_duration=30_000_000)))
        async with bench(fake) as asking:
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 40.0)
            usage = (await asking.ask("x" * 4 * 1300)).usage
            assert (usage.input, usage.evaluated) == (1302, None)
            assert asking.models.prefill.rate("test", "utf8-bytes-upper-bound-v1") == 40.0


async def test_nothing_is_learnt_from_the_second_try_after_a_connection_that_broke_in_silence() -> None:
    with FakeOllama() as fake:
        fake.script(dropped(), text("a", end=last(prompt=1302, prompt_eval_duration=30_000_000)))
        async with bench(fake) as asking:
            asking.models.prefill.emptied(await asking.model())
            await asking.ask(request=rendered("x" * 4 * 1300))
            assert asking.models.prefill.rate("test", "utf8-bytes-upper-bound-v1") is None


async def test_nothing_is_learnt_from_a_prompt_that_was_broken_off_and_sent_again() -> None:
    with FakeOllama() as fake:
        fake.script(hang(), text("a", end=last(prompt=1302, prompt_eval_duration=30_000_000)))
        async with bench(fake) as asking:
            asking.models.prefill.emptied(await asking.model())
            asked = await waiting(asking, fake, request=rendered("x" * 4 * 1300))
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await asking.ask(request=rendered("x" * 4 * 1300))
            assert asking.models.prefill.rate("test", "utf8-bytes-upper-bound-v1") is None


@pytest.mark.parametrize(("seconds", "learnt"), [(1.25, True), (1.24, False)])
async def test_a_speed_beyond_belief_means_a_cached_prompt(seconds: float, learnt: bool) -> None:
    with FakeOllama() as fake:
        fake.script(
            text("a", end=last(prompt=1000, prompt_eval_duration=10 * 10**9)),
            text("b", end=last(prompt=1000, prompt_eval_duration=int(seconds * 10**9))),
        )
        async with bench(fake) as asking:
            asking.models.prefill.emptied(await asking.model())
            await asking.ask(request=rendered("x" * 4 * 997, system=""))
            usage = (await asking.ask(request=rendered("y" * 4 * 997, system=""))).usage
            assert usage.evaluated == (999 if learnt else None)
            assert asking.models.prefill.rate("test", "utf8-bytes-upper-bound-v1") == pytest.approx(449.15 if learnt else 99.9)


async def test_an_observed_speed_goes_before_one_of_an_earlier_process() -> None:
    with FakeOllama() as fake:
        fake.script(text("a", end=last(prompt=1000, prompt_eval_duration=10**9)))
        async with bench(fake) as asking:
            asking.models.prefill.emptied(await asking.model())
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 1000.0)
            request = rendered("x" * 4 * 900)
            await asking.ask(request=request)
            asking.models.prefill.seed_rate("test", "utf8-bytes-upper-bound-v1", 5.0)
            assert asking.models.prefill.rate("test", "utf8-bytes-upper-bound-v1") == request.text_tokens


async def test_a_server_with_one_slot_keeps_the_prefix_of_its_last_request_only() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            one, two = rendered("x" * 4 * 799), rendered("x" * 4 * 799, tools=[READ])
            await asking.ask(request=two, tools=[READ])
            model = await asking.model()
            assert asking.broker.estimate(model, two).uncached == 1
            await asking.ask(request=one)
            assert asking.broker.estimate(model, two).uncached == two.text_tokens
            assert asking.broker.estimate(model, one).uncached == 1


async def test_a_server_seen_to_answer_two_at_once_keeps_two_prefixes() -> None:
    with FakeOllama() as fake:
        gate = Gate()
        fake.script(gated(gate, text("!"), before=begun("slow")), text("quick"))
        async with bench(fake) as asking:
            first = await waiting(asking, fake)
            await asking.ask()
            gate.open()
            await first
            one, two = rendered("x" * 4 * 799), rendered("x" * 4 * 799, tools=[READ])
            await asking.ask(request=two, tools=[READ])
            await asking.ask(request=one)
            assert asking.broker.estimate(await asking.model(), two).uncached == 1


async def test_requests_with_tools_and_without_are_remembered_apart_where_the_catalog_tells_of_two_slots() -> None:
    with FakeOllama() as fake:
        async with bench(fake, slots=2) as asking:
            one, two = rendered("x" * 4 * 799), rendered("x" * 4 * 799, tools=[READ])
            await asking.ask(request=one)
            model = await asking.model()
            assert asking.broker.estimate(model, two).uncached == two.text_tokens
            await asking.ask(request=two, tools=[READ])
            assert asking.broker.estimate(model, one).uncached == 1
            assert asking.broker.estimate(model, two).uncached == 1
