"""The benchmark itself works: its short form measures every figure. What the numbers are is asserted nowhere."""

import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
FIGURES = (
    "first visible delta, warm spare Worker", "Worker spawned for the Run", "POST runs → 202", "p95, 1 stream", "p95, 4 streams",
    "400-frame burst", "last byte → terminal event", "provider sees the close", "brokered tool round trip", "page of a ",
    "list of 100 Conversations", "warm start to /health", "bytes counted for tokens", "exact tokenizer loaded", "per active Run",
    "provider request body", "syncs per Run", "compile a plan with 1,000 Turns", "added per model call",
)


def test_the_short_benchmark_measures_every_figure() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/bench.py", "--quick"], cwd=PROJECT, capture_output=True, text=True, timeout=600,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")][2:]
    for figure in FIGURES:
        found = [row for row in rows if figure in row]
        assert found, figure
        measured = found[0].split("|")[3]
        assert re.search(r"\d", measured) or "not measured" in measured, found[0]


def test_no_folder_of_the_benchmark_is_left_behind() -> None:
    assert not list((PROJECT / ".runtime/tmp").glob("bench-*")), "the benchmark removes its checkouts"
