"""Rows of the benchmark and their table."""

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

MS = 1000.0


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `values` in `unit`, one per repetition; `raw`: the same of the provider alone. `target`: the most that the
    median may be, None where there is no target. `remark` stands instead of a value that cannot be measured here."""

    figure: str
    unit: str
    values: Sequence[float] = ()
    target: float | None = None
    raw: Sequence[float] = ()
    remark: str = ""

    @property
    def missed(self) -> bool:
        return self.target is not None and bool(self.values) and median(self.values) > self.target


def table(rows: Sequence[Row]) -> str:
    lines = ["| figure | target | measured: median (min–max) | raw provider | n | |", "|---|---|---|---|---|---|"]
    for row in rows:
        target = "–" if row.target is None else f"≤ {_number(row.target)} {row.unit}"
        measured = f"{_spread(row.values)} {row.unit}" if row.values else row.remark or "–"
        raw = f"{_spread(row.raw)} {row.unit}" if row.raw else "–"
        held = "" if row.target is None or not row.values else "**missed**" if row.missed else "held"
        lines.append(f"| {row.figure} | {target} | {measured} | {raw} | {len(row.values)} | {held} |")
    return "\n".join(lines)


def machine(root: Path, load_before: float) -> str:
    """What the figures depend on, in one line."""
    git = ["git", "-C", str(root)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True).stdout.strip() or "unknown"
    changed = subprocess.run([*git, "status", "--porcelain", "--", "src"], check=False, capture_output=True, text=True).stdout.strip()
    return (
        f"{os.cpu_count()} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after, Python {platform.python_version()}, "
        f"Linux {platform.release().partition('-')[0]} {platform.machine()}, commit {commit}{' with changes in src' if changed else ''}"
    )


def p95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def _spread(values: Sequence[float]) -> str:
    if len(values) == 1:
        return _number(values[0])
    return f"{_number(median(values))} ({_number(min(values))}–{_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
