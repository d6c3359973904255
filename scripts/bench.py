"""The benchmark: what Agent Builder adds to a local model, beside the bare provider in the same run. Prints a Markdown table.

    ./.venv/bin/python scripts/bench.py              the whole table, under three minutes
    ./.venv/bin/python scripts/bench.py --quick      a smoke form: every row, few repetitions
    ./.venv/bin/python scripts/bench.py --model small      adds the embedded 0.5B model (fetched on first use; minutes)

Everything runs on loopback, in a temporary checkout that is removed afterwards. The provider is a process of its own
(bench_provider.py); times are taken by time.monotonic, which all processes of a machine share. docs/performance.md says more.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(PROJECT / "src"), str(PROJECT)]

import bench_context  # noqa: E402
import bench_rest  # noqa: E402
import bench_streams  # noqa: E402
import uvloop  # noqa: E402
from bench_gateway import Gateway, Provider, catalog, make_checkout  # noqa: E402
from bench_report import Row, machine, table  # noqa: E402

LIMIT_S = 600
BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:5.0f} s  {text}", file=sys.stderr, flush=True)


async def measure(scratch: Path, quick: bool) -> list[Row]:
    """The figures that need no model, in the order of the table."""
    root, turns, repeats = scratch / "checkout", 200 if quick else 10_000, 2 if quick else 24
    async with Provider() as provider:
        make_checkout(root, catalog(f"http://127.0.0.1:{provider.port}", "bench:1b", bench_rest.PROFILE))
        async with Gateway(root, provider.port):
            pass
        say("filling a checkout")
        long = await bench_rest.fill(root, turns)
        say("starting")
        started = await bench_rest.start_row(root, provider, 1 if quick else 7)
        async with Gateway(root, provider.port) as gateway:
            say("memory")
            memory = await bench_rest.memory_rows(scratch, gateway)
            gateway.agent = await gateway.new_agent("Benchmark")
            say("Turns")
            body = await bench_rest.body_row(gateway)
            streams = await bench_streams.rows(gateway, repeats)
            say("pages")
            pages = await bench_rest.page_rows(gateway, long, turns, repeats)
            memory.append(await bench_rest.run_memory_row(gateway))
        say("syncs")
        syncs = await bench_rest.sync_row(scratch, provider, 2 if quick else 60)
    return [*streams, *pages, started, *memory, body, syncs, *bench_context.rows(2 if quick else 9)]


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions; the numbers mean little")
    parser.add_argument("--model", choices=["small"], help="also measure with the embedded model")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    place = PROJECT / ".runtime/tmp"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as scratch:
        async with asyncio.timeout(LIMIT_S):
            rows = await measure(Path(scratch), asked.quick)
    if asked.model:
        import bench_model

        with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as scratch:
            rows += await bench_model.rows(Path(scratch), asked.model)
    print(machine(PROJECT, load), table(rows), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
