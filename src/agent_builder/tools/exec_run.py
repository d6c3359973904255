"""exec/run: one of two fixed kinds of command, in a confined process that can reach neither network nor workspace.

`runtime-compile` compiles a one-time copy of the workspace's *.py files and reports syntax errors; nothing is kept. The four
Bash builtins run in an empty private directory. What the approval binds: the words, the program, the directory and
environment policy, that nothing is redirected, and the list of files. One command runs at a time in all.
"""

import asyncio
import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent_builder.capsule.command_runner import CommandBounds, CommandEnd, run_confined
from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.safe_open import open_file
from agent_builder.capsule.walk import Walk
from agent_builder.protocol.digest import digest_bytes, digest_of
from agent_builder.protocol.limits import (
    COMMAND_OUTPUT_BYTES,
    COMMAND_WALL_S,
    COMPILE_BYTES,
    COMPILE_FILES,
    DIFF_BYTES,
    NAMES_SHOWN_BYTES,
)
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.sandbox.launch import interpreter, program_path
from agent_builder.sandbox.profiles import COMMAND_BASH, COMMAND_COMPILE
from agent_builder.tools.calls import CapabilityResult, refused
from agent_builder.tools.command_line import CommandLine, CommandRefused, parse_command
from agent_builder.tools.cuts import clip, counted
from agent_builder.tools.effects import Effect, EffectStale
from agent_builder.tools.visible_text import visible

_PRIVATE = 0o700
_BOUNDS = CommandBounds(COMMAND_WALL_S, COMMAND_OUTPUT_BYTES)
_AGAIN = "Call exec_run again if it is still wanted."


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Where a command runs: `directory` is made for it and removed after it; it lies outside of what the Worker may reach.
    `search_clock` starts the time that one walk may take. One command at a time holds `turn`."""

    workspace: Path
    directory: Path
    worker_env: Path
    clock: Clock
    search_clock: Callable[[], Callable[[], bool]]
    turn: asyncio.Lock


def plan_command(arguments: dict[str, object], place: CommandPlace) -> Effect | CapabilityResult:
    """Blocking. Raises SandboxFailed where the program is missing."""
    try:
        line = parse_command(str(arguments["command"]))
    except CommandRefused as refusal:
        return refused("command", f"nothing was run: {refusal.sentence}")
    try:
        sources = _sources(place) if line.compiles else _NO_SOURCES
        shown = _shown(line, sources)
    except FileRefused as refusal:
        return refused(refusal.reason, f"nothing was run: {refusal.sentence}")
    bound = _program_identity(line)

    def check() -> None:
        if _program_identity(line) != bound:
            raise EffectStale("the program was changed meanwhile")
        if line.compiles:
            _check_sources(place, sources)

    async def act() -> CapabilityResult:
        async with place.turn:
            await asyncio.to_thread(check)
            return await _run(line, sources, place)

    return Effect(shown, check, act, _AGAIN, interruptible=True)


# running ---------------------------------------------------------------------------------------------------------


async def _run(line: CommandLine, sources: "_Sources", place: CommandPlace) -> CapabilityResult:
    profile = COMMAND_COMPILE if line.compiles else COMMAND_BASH
    async with AsyncExitStack() as stack:
        try:
            directory = await stack.enter_async_context(private_directory(place.directory))
            left_out = await in_a_thread(_copy_sources, place, sources, directory) if line.compiles else ()
        except FileRefused as refusal:
            return refused(refusal.reason, f"nothing was run: {refusal.sentence}")
        except OSError as error:
            return CapabilityResult("failed", "io_error", f"nothing was run: its directory cannot be made ({error.strerror})", {})
        arguments = [] if line.compiles else list(line.words)
        end = await run_confined(profile.name, place.worker_env, directory, arguments, _BOUNDS, place.clock)
    return _result(line, end, left_out)


@asynccontextmanager
async def private_directory(directory: Path) -> AsyncIterator[Path]:
    """Removed in every case, with all that is in it."""
    try:
        await in_a_thread(directory.mkdir, _PRIVATE)
        yield Path(os.path.realpath(directory))
    finally:
        if directory.exists():
            await in_a_thread(shutil.rmtree, directory)


async def in_a_thread(work: Callable[..., T], *arguments: object) -> T:
    """A cancelled thread goes on: who waits for it leaves only when it is done, or it would write into what is being removed."""
    result, cancelled = await to_the_end(asyncio.to_thread(work, *arguments))
    if cancelled:
        raise asyncio.CancelledError
    return result


def _result(line: CommandLine, end: CommandEnd, left_out: tuple[str, ...]) -> CapabilityResult:
    tail = f"not checked: {clip(', '.join(left_out), NAMES_SHOWN_BYTES)}" if left_out else ""
    return ended_result(end, {"command_digest": line.digest}, tail)


def ended_result(end: CommandEnd, facts: dict[str, object], tail: str = "") -> CapabilityResult:
    """How a confined process ended. Output that does not fit beside the lines about it is cut, and the receipt, which begins with
    `facts`, says so."""
    ended = {"exit_code": end.status} if end.status >= 0 else {"signal": -end.status}
    code = end.stopped or ("signal" if end.status < 0 else "exit_code" if end.status else None)
    output = (end.stdout + end.stderr).decode("utf-8", "replace")
    heading = _heading(end) if output else f"{_heading(end)}, no output"
    shown = clip(output, COMMAND_OUTPUT_BYTES - len(f"{heading}\n\n{tail}".encode()))
    receipt: dict[str, object] = {
        **facts, "output_bytes": len(end.stdout) + len(end.stderr),
        "output_digest": digest_bytes(end.stdout + end.stderr), "truncated": end.stopped == "output" or shown != output, **ended,
    }
    return CapabilityResult("ok" if code is None else "failed", code, "\n".join(filter(None, (heading, shown, tail))), receipt)


def _heading(end: CommandEnd) -> str:
    """How it ended, as it was: a command may end by itself in the moment in which a bound is noticed."""
    bound = {
        "wall_clock": f"it ran longer than {COMMAND_WALL_S} seconds", "output": f"it wrote more than {COMMAND_OUTPUT_BYTES} bytes", None: "",
    }[end.stopped]
    if end.status >= 0:
        return f"exit code {end.status}" + (f", but {bound}" if bound else "")
    return f"stopped: {bound}" if bound else f"killed by signal {-end.status} ({signal.Signals(-end.status).name})"


# what is approved ------------------------------------------------------------------------------------------------


def _shown(line: CommandLine, sources: "_Sources") -> str:
    """Raises FileRefused when the operator could not be shown all of it."""
    if not line.compiles:
        words = visible(shlex.join(line.words))
        return f"{words}\n\nBash builtin; confined, in an empty private directory, no network, no files, nothing redirected\n"
    parts = [f"runtime-compile\n\nchecks a private copy of {counted(len(sources.sizes), 'file')} for syntax errors and keeps nothing:"]
    parts += [f"  {visible(path)}" for path in sources.sizes]
    if sources.left_out:
        parts += ["not checked:", *(f"  {visible(one)}" for one in sources.left_out)]
    shown = "\n".join(parts) + "\n"
    if len(shown.encode()) > DIFF_BYTES:
        raise FileRefused("too_many", f"the list of *.py files is too long to be shown to the operator (over {DIFF_BYTES} bytes)")
    return shown


def _program_identity(line: CommandLine) -> list[object]:
    path = interpreter() if line.compiles else program_path(COMMAND_BASH.name)
    found = os.stat(path)
    return [path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]


@dataclass(frozen=True, slots=True)
class _Sources:
    """Bytes of each *.py file, and those that are left out with the reason."""

    sizes: dict[str, int]
    left_out: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Of the names alone: the approval is for checking these files, whatever stands in them by then."""
        return digest_of([list(self.sizes), list(self.left_out)])


_NO_SOURCES = _Sources({}, ())


def _check_sources(place: CommandPlace, bound: _Sources) -> _Sources:
    """What is there now. Raises EffectStale when it is not the list that was shown."""
    try:
        found = _sources(place)
    except FileRefused as refusal:
        raise EffectStale(refusal.sentence) from refusal
    if found.digest != bound.digest:
        raise EffectStale("the list of *.py files is another one now")
    return found


def _sources(place: CommandPlace) -> _Sources:
    """Raises FileRefused when there are none or too many."""
    sizes: dict[str, int] = {}
    left_out = []
    walk = Walk(place.workspace, place.search_clock())
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


def _copy_sources(place: CommandPlace, bound: _Sources, directory: Path) -> tuple[str, ...]:
    """Copies the files of the list, as they are now, within the same bounds; gives what was left out. Raises EffectStale,
    FileRefused, OSError."""
    sources = _check_sources(place, bound)
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
