"""How long the page keeps a reader waiting: the longest task of Chromium's main thread for what loads it most, in front of a
real Gateway with a scripted model. Prints a Markdown table; a minute.

    ./.venv/bin/python scripts/bench_page.py
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(PROJECT / "src"), str(PROJECT)]

import bench_rest  # noqa: E402
from bench_report import machine  # noqa: E402
from playwright.async_api import expect  # noqa: E402

from tests.support.browser import Workbench, write  # noqa: E402
from tests.support.fake_ollama import FakeOllama, call, text  # noqa: E402
from tests.support.gateway import Gateway  # noqa: E402

TURNS = 1000
ANSWER_BYTES = 12_000
ANSWERS = 17
TOOL_CALLS = 30
LONG_TASK_MS = 50
PROFILE = "output_cap = 8192\n[models.budgets]\nmodel_calls = 31\ntool_calls = 30\n"
OBSERVE = """
  window.tasks = []; window.keys = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration))).observe({type: 'longtask'});
  new PerformanceObserver((list) => keys.push(...list.getEntries().filter((one) => one.name === 'keydown').map((one) => one.duration)))
    .observe({type: 'event', durationThreshold: 16});
"""


@dataclass
class Figures:
    """`rows`: what was done, its longest task, and the longest time from a key to the next paint; ms, 0 below what is reported."""

    bench: Workbench
    rows: list[tuple[str, float, float]] = field(default_factory=list)

    @asynccontextmanager
    async def of(self, what: str) -> AsyncIterator[None]:
        await self.bench.page.evaluate("window.tasks?.splice(0), window.keys?.splice(0)")
        yield
        await self.bench.page.evaluate("new Promise((done) => setTimeout(done, 300))")
        tasks, keys = await self.bench.page.evaluate("[tasks.splice(0), keys.splice(0)]")
        self.rows.append((what, max(tasks, default=0), max(keys, default=0)))


async def measure(folder: Path, fake: FakeOllama) -> list[tuple[str, float, float]]:
    async with Gateway(folder, fake.port, profile=PROFILE) as gateway:
        await gateway.stop()
        await bench_rest.fill(gateway.root, TURNS)
        await gateway.restart()
        async with Workbench.open(gateway) as bench:
            await bench.page.add_init_script(OBSERVE)
            figures = Figures(bench)
            await long_conversation(bench, figures)
            await streaming(bench, figures, fake)
            await pasting(bench, figures)
            await many_events(bench, figures, gateway, fake)
            return figures.rows


async def long_conversation(bench: Workbench, figures: Figures) -> None:
    async with figures.of("sign in with 100 Conversations"):
        await bench.sign_in()
    await bench.show_conversation("The long one")
    earlier = bench.page.get_by_role("button", name="Load earlier Turns")
    async with figures.of(f"page in {TURNS:,} Turns"):
        while (shown := await bench.turns.count()) < TURNS:
            await earlier.click()
            await expect(bench.turns).not_to_have_count(shown)
    async with figures.of(f"scroll through {TURNS:,} Turns"):
        await bench.page.locator("#talk").hover()
        for _ in range(60):
            await bench.page.mouse.wheel(0, 900)
    async with figures.of(f"type with {TURNS:,} Turns loaded"):
        await bench.box.press_sequentially("typing with everything loaded ", delay=10)


async def streaming(bench: Workbench, figures: Figures, fake: FakeOllama) -> None:
    words = "".join(f"word {number:05d} of **many**, `so` it goes\n" for number in range(400))[:ANSWER_BYTES]
    fake.script(*(text(words, size=24, gap=0.002) for _ in range(ANSWERS)))
    async with figures.of(f"stream {ANSWERS * ANSWER_BYTES // 1000} KB in {ANSWERS} answers below them, typing meanwhile"):
        for number in range(ANSWERS):
            await bench.send(f"more {number}")
            await bench.box.press_sequentially("typing meanwhile ", delay=10)
            await bench.answered(TURNS + number + 1)
            await bench.box.fill("")


async def pasting(bench: Workbench, figures: Figures) -> None:
    await bench.start_new()
    async with figures.of("paste 200 KB"):
        await bench.box.evaluate("(box) => { box.focus(); document.execCommand('insertText', false, 'x '.repeat(100_000)); }")
    async with figures.of("type behind it"):
        await bench.box.press_sequentially("typing behind it ", delay=10)
    await bench.box.fill("")


async def many_events(bench: Workbench, figures: Figures, gateway: Gateway, fake: FakeOllama) -> None:
    for number in range(TOOL_CALLS):
        write(gateway, f"{number}.txt", "a line\n")
    words = "".join(f"word {number} " for number in range(500))
    fake.script(*(call("file_read_text", path=f"{number}.txt") for number in range(TOOL_CALLS)), text(words, size=9, gap=0.01))
    await bench.show_conversation("Conversation 0")
    async with figures.of("watch a Run of many events with its details open"):
        await bench.send("read them all")
        await bench.button("details", bench.topbar).click()
        await bench.answered(1)
    shown = await bench.page.locator(".event").count()
    await bench.button("close_details").click()
    async with figures.of(f"open the details of a Run of {shown} events"):
        await bench.button("details", bench.topbar).click()
        await expect(bench.page.locator(".event")).to_have_count(shown)
    async with figures.of("step through 60 of them"):
        await bench.page.locator(".timeline").focus()
        for _ in range(60):
            await bench.page.keyboard.press("ArrowDown")


def shown(ms: float, least: int) -> str:
    return f"{ms:.0f} ms" if ms >= least else f"under {least} ms"


async def main() -> None:
    load = os.getloadavg()[0]
    place = PROJECT / ".runtime/tmp"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="page-", dir=place) as folder, FakeOllama() as fake:
        rows = await measure(Path(folder), fake)
    print(machine(PROJECT, load), "", "| action | longest task | longest wait from a key to the paint |", "|---|---|---|", sep="\n")
    for what, task, key in rows:
        print(f"| {what} | {shown(task, LONG_TASK_MS)} | {shown(key, 16) if key else '–'} |")


if __name__ == "__main__":
    asyncio.run(main())
