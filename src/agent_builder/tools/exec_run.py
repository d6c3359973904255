"""exec/run: one of two fixed kinds of command, in a confined process that can reach neither network nor workspace.

`runtime-compile` compiles a one-time copy of the workspace's *.py files and reports syntax errors; nothing is kept. The four
Bash builtins run in an empty private directory. What the approval binds: the words, the program, the directory and
environment policy, that nothing is redirected, and the list of files. One command runs at a time in all.
"""

import asyncio
import os
import shlex
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.command_runner import CommandBounds, run_confined
from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import COMMAND_OUTPUT_BYTES, COMMAND_WALL_S, DIFF_BYTES
from agent_builder.protocol.ports import Clock
from agent_builder.sandbox.launch import interpreter, program_path
from agent_builder.sandbox.profiles import COMMAND_BASH, COMMAND_COMPILE
from agent_builder.tools.calls import CapabilityResult, refused
from agent_builder.tools.command_end import ended_result
from agent_builder.tools.command_line import CommandLine, CommandRefused, parse_command
from agent_builder.tools.cuts import counted
from agent_builder.tools.effects import Effect, EffectStale
from agent_builder.tools.private_directory import in_a_thread, private_directory
from agent_builder.tools.python_sources import NO_SOURCES, Sources, copy_sources, find_sources
from agent_builder.tools.visible_text import visible

_BOUNDS = CommandBounds(COMMAND_WALL_S, COMMAND_OUTPUT_BYTES)
_AGAIN = "Call exec_run again if it is still wanted."


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
        sources = find_sources(place.workspace, place.search_clock()) if line.compiles else NO_SOURCES
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


async def _run(line: CommandLine, sources: Sources, place: CommandPlace) -> CapabilityResult:
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
    return ended_result(end, {"command_digest": line.digest}, left_out)


# what is approved ------------------------------------------------------------------------------------------------


def _shown(line: CommandLine, sources: Sources) -> str:
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


def _check_sources(place: CommandPlace, bound: Sources) -> Sources:
    """What is there now. Raises EffectStale when it is not the list that was shown."""
    try:
        found = find_sources(place.workspace, place.search_clock())
    except FileRefused as refusal:
        raise EffectStale(refusal.sentence) from refusal
    if found.digest != bound.digest:
        raise EffectStale("the list of *.py files is another one now")
    return found


def _copy_sources(place: CommandPlace, bound: Sources, directory: Path) -> tuple[str, ...]:
    """Copies the files of the list that was shown; gives what was left out. Raises EffectStale, FileRefused, OSError."""
    return copy_sources(place.workspace, _check_sources(place, bound), directory)
