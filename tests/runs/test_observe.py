"""What a finished call teaches is stored with it, in the scope of the toolset that was really sent."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.context.estimate import BYTES_COUNTER, calibration_scope
from agent_builder.context.toolset import toolset_of
from agent_builder.protocol.limits import CALIBRATION_SAMPLES
from agent_builder.protocol.model_profile import Budgets
from agent_builder.protocol.request import START_OVERHEAD, RenderedRequest, TemplateOverhead
from agent_builder.storage.calibration import Observation, get_overhead, observations
from tests.support.piped_worker import Piped, behave
from tests.support.plans import EXACT_COUNTER
from tests.support.run_bench import RunBench, proposed, run_bench

ADDS = TemplateOverhead(request=60, message=4, call=5, result=3)


def reported(rendered: RenderedRequest) -> int:
    return rendered.text_tokens + ADDS.request + ADDS.of(rendered.units)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[RunBench]:
    async with run_bench(tmp_path) as made:
        made.counter = EXACT_COUNTER
        made.model.prompt_tokens = reported
        yield made


async def learnt(bench: RunBench, scope: str = "scope") -> TemplateOverhead | None:
    return await bench.database.read(lambda conn: get_overhead(conn, scope))


async def seen(bench: RunBench, scope: str = "scope") -> list[Observation]:
    return await bench.database.read(lambda conn: observations(conn, scope, CALIBRATION_SAMPLES))


async def test_each_call_of_a_run_teaches(bench: RunBench) -> None:
    bench.model.calls(proposed("file/stat", path="a"))
    await bench.run(Piped(behave))
    requests = [one.rendered for one in bench.model.requests]
    assert [(one.request_digest, one.text, one.spare, one.units, one.observed) for one in reversed(await seen(bench))] == [
        (one.digest, one.text_tokens, one.spare_tokens, one.units, reported(one)) for one in requests
    ]
    assert await learnt(bench) == TemplateOverhead(60 + 2 * 4, 4 + 5 + 3, 4 + 5 + 3, 4 + 5 + 3)


async def test_a_report_above_the_admitted_bound_begins_anew(bench: RunBench) -> None:
    await bench.run(Piped(behave))
    assert await learnt(bench) != START_OVERHEAD
    bench.model.prompt_tokens = lambda rendered: rendered.admission_tokens + 1
    await bench.run(Piped(behave))
    assert await learnt(bench) == START_OVERHEAD


async def test_a_last_request_without_tools_teaches_nothing_of_those_with_tools(bench: RunBench) -> None:
    bench.profile(Budgets(tool_calls=1), finalization="empty_toolset")
    bench.model.calls(proposed("file/stat", path="a"))
    await bench.run(Piped(behave))
    first, last = (one.rendered for one in bench.model.requests)
    bare = calibration_scope(bench.qualified, toolset_of(()), EXACT_COUNTER)
    assert [one.request_digest for one in await seen(bench)] == [first.digest]
    assert [one.request_digest for one in await seen(bench, bare)] == [last.digest]
    assert await learnt(bench) == TemplateOverhead(60 + 2 * 4, 16, 16, 16)
    assert await learnt(bench, bare) == START_OVERHEAD


async def test_counts_of_bytes_and_counts_without_cached_tokens_teach_nothing(bench: RunBench) -> None:
    bench.model.counts_cached = False
    await bench.run(Piped(behave))
    bench.model.counts_cached = True
    bench.counter = BYTES_COUNTER
    await bench.run(Piped(behave))
    assert (len(await seen(bench)), await learnt(bench)) == (2, None)
