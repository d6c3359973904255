"""exec/run: one of two fixed kinds of command, in a confined process that can reach neither network nor workspace.

`runtime-compile` compiles a one-time copy of the workspace's *.py files and reports syntax errors; nothing is kept. The four
Bash builtins run in an empty private directory. What the approval binds: the words, the program, the directory and
environment policy, and that nothing is redirected.
"""

import asyncio
import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent_builder.capsule.command_runner import CommandBounds, CommandEnd, run_confined
from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.safe_open import open_file
from agent_builder.capsule.walk import Walk
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import COMMAND_OUTPUT_BYTES, COMMAND_WALL_S, COMPILE_BYTES, COMPILE_FILES
from agent_builder.protocol.ports import Clock
from agent_builder.sandbox.launch import interpreter, program_path
from agent_builder.sandbox.profiles import COMMAND_BASH, COMMAND_COMPILE
from agent_builder.tools.calls import CapabilityResult, refused
from agent_builder.tools.command_line import CommandLine, CommandRefused, parse_command
from agent_builder.tools.cuts import counted
from agent_builder.tools.diff import visible
from agent_builder.tools.effects import Effect, EffectStale

_PRIVATE = 0o700
_BOUNDS = CommandBounds(COMMAND_WALL_S, COMMAND_OUTPUT_BYTES)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Where a command runs: `directory` is made for it and removed after it; it lies outside of what the Worker may reach."""

    workspace: Path
    directory: Path
    worker_env: Path
    clock: Clock
    expired: Callable[[], bool]


def plan_command(arguments: dict[str, object], place: CommandPlace) -> Effect | CapabilityResult:
    """Blocking. Raises SandboxFailed where the program is missing."""
    try:
        line = parse_command(str(arguments["command"]))
    except CommandRefused as refusal:
        return refused("command", f"nothing was run: {refusal.sentence}")
    try:
        sources = _sources(place) if line.compiles else _Sources({}, ())
    except FileRefused as refusal:
        return refused(refusal.reason, f"nothing was run: {refusal.sentence}")
    bound = _program_identity(line)

    def check() -> None:
        if _program_identity(line) != bound:
            raise EffectStale("the program was changed meanwhile")

    async def act() -> CapabilityResult:
        await asyncio.to_thread(check)
        return await _run(line, place)

    return Effect(_shown(line, sources), check, act, interruptible=True)


# running ---------------------------------------------------------------------------------------------------------


async def _run(line: CommandLine, place: CommandPlace) -> CapabilityResult:
    profile = COMMAND_COMPILE if line.compiles else COMMAND_BASH
    async with _private_directory(place.directory) as directory:
        left_out: tuple[str, ...] = ()
        if line.compiles:
            try:
                left_out = await _to_the_end(_copy_sources, place, directory)
            except FileRefused as refusal:
                return refused(refusal.reason, f"nothing was run: {refusal.sentence}")
        arguments = [] if line.compiles else list(line.words)
        end = await run_confined(profile.name, place.worker_env, directory, arguments, _BOUNDS, place.clock)
    return _result(line, end, left_out)


@asynccontextmanager
async def _private_directory(directory: Path) -> AsyncIterator[Path]:
    """Removed in every case, with all that is in it."""
    try:
        await _to_the_end(directory.mkdir, _PRIVATE)
        yield Path(os.path.realpath(directory))
    finally:
        if directory.exists():
            await _to_the_end(shutil.rmtree, directory)


async def _to_the_end(work: Callable[..., T], *arguments: object) -> T:
    """In a thread. A cancelled thread goes on: who waits for it leaves only when it is done, or it would write into what is
    being removed."""
    doing = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise


def _result(line: CommandLine, end: CommandEnd, left_out: tuple[str, ...]) -> CapabilityResult:
    output = (end.stdout + end.stderr).decode("utf-8", "replace")
    receipt: dict[str, object] = {
        "command_digest": line.digest, "output_bytes": len(end.stdout) + len(end.stderr),
        "output_digest": digest_bytes(end.stdout + end.stderr), "truncated": end.stopped == "output",
    }
    if end.status >= 0 and end.stopped is None:
        receipt["exit_code"] = end.status
        heading, code = f"exit code {end.status}", None if end.status == 0 else "exit_code"
    else:
        receipt["signal"] = -end.status
        heading, code = _stopped(end), end.stopped or "signal"
    lines = [heading, output] if output else [f"{heading}, no output"]
    if left_out:
        lines.append(f"not checked: {', '.join(left_out)}")
    return CapabilityResult("ok" if code is None else "failed", code, "\n".join(lines), receipt)


def _stopped(end: CommandEnd) -> str:
    if end.stopped == "wall_clock":
        return f"stopped: it ran longer than {COMMAND_WALL_S} seconds"
    if end.stopped == "output":
        return f"stopped: it wrote more than {COMMAND_OUTPUT_BYTES} bytes"
    return f"killed by signal {-end.status} ({signal.Signals(-end.status).name})"


# what is approved ------------------------------------------------------------------------------------------------


def _shown(line: CommandLine, sources: "_Sources") -> str:
    if not line.compiles:
        words = visible(shlex.join(line.words))
        return f"{words}\n\nBash builtin; confined, in an empty private directory, no network, no files, nothing redirected\n"
    listed = "\n".join(f"  {visible(path)}" for path in sources.sizes)
    return f"runtime-compile\n\nchecks a private copy of {counted(len(sources.sizes), 'file')} for syntax errors and keeps nothing:\n{listed}\n"


def _program_identity(line: CommandLine) -> list[object]:
    path = interpreter() if line.compiles else program_path(COMMAND_BASH.name)
    found = os.stat(path)
    return [path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]


@dataclass(frozen=True, slots=True)
class _Sources:
    """Bytes of each *.py file, and those that are left out with the reason."""

    sizes: dict[str, int]
    left_out: tuple[str, ...]


def _sources(place: CommandPlace) -> _Sources:
    """Raises FileRefused when there are none or too many."""
    sizes: dict[str, int] = {}
    left_out = []
    walk = Walk(place.workspace, place.expired)
    for found in walk.below():
        if found.directory or not found.path.text.endswith(".py"):
            continue
        if found.refusal is not None:
            left_out.append(f"{found.path.text} ({found.refusal.reason})")
            continue
        sizes[found.path.text] = found.bytes
    if walk.truncated:
        raise FileRefused("too_many", f"the workspace is too large to be checked (bound: {', '.join(sorted(walk.truncated))})")
    if not sizes:
        raise FileRefused("missing", "the workspace has no *.py file that can be checked")
    if len(sizes) > COMPILE_FILES or sum(sizes.values()) > COMPILE_BYTES:
        raise FileRefused(
            "too_many", f"the workspace has {len(sizes)} *.py files with {sum(sizes.values())} bytes; at most {COMPILE_FILES} files "
            f"and {COMPILE_BYTES} bytes can be checked"
        )
    return _Sources(sizes, tuple(left_out))


def _copy_sources(place: CommandPlace, directory: Path) -> tuple[str, ...]:
    """Copies what is there now, within the same bounds; gives what was left out."""
    sources = _sources(place)
    left_out, room = list(sources.left_out), COMPILE_BYTES
    for found in Walk(place.workspace, lambda: False).below():
        if found.directory or found.path.text not in sources.sizes:
            continue
        try:
            with open_file(found.parent, found.path) as file:
                data = file.read()[1]
        except FileRefused as refusal:
            left_out.append(f"{found.path.text} ({refusal.reason})")
            continue
        room -= len(data)
        if room < 0:
            raise FileRefused("too_many", f"the *.py files have more than {COMPILE_BYTES} bytes")
        target = directory / found.path.text
        target.parent.mkdir(_PRIVATE, parents=True, exist_ok=True)
        target.write_bytes(data)
    return tuple(left_out)
