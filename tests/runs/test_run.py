"""One Run as others see it: what asking for its end does."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_builder.capsule import atomic_replace
from agent_builder.protocol.events import Event
from agent_builder.runs.run import Run
from tests.support.piped_worker import Piped, behave
from tests.support.run_bench import RunBench, proposed, run_bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[RunBench]:
    async with run_bench(tmp_path) as made:
        yield made


async def test_a_run_that_is_cancelled_again_and_again_tells_what_became_of_its_write(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, real, may_write = asyncio.get_running_loop(), atomic_replace._fill, threading.Event()
    writing: asyncio.Future[None] = loop.create_future()

    def fill(descriptor: int, data: bytes) -> None:
        loop.call_soon_threadsafe(writing.set_result, None)
        may_write.wait()
        real(descriptor, data)

    async def press(run: Run) -> None:
        await writing
        for _ in range(3):
            assert run.cancel()
            for _ in range(20):
                await asyncio.sleep(0)
        may_write.set()

    pressing: list[asyncio.Task[None]] = []

    def started(event: Event, run: Run) -> None:
        if event.type == "tool.call.started":
            pressing.append(asyncio.create_task(press(run)))

    monkeypatch.setattr(atomic_replace, "_fill", fill)
    bench.decision = "approve"
    bench.model.calls(proposed("file/write", path="a.md", content="x\n"))
    done = await bench.run(Piped(behave), meanwhile=started)
    await asyncio.gather(*pressing)
    assert done.terminal == "run.cancelled"
    assert [one["outcome"] for one in done.of("tool.call.finished")] == ["ok"]
    assert (bench.workspace / "a.md").read_text() == "x\n"
