"""What a background Task runs: the same runtime-compile as exec/run, in a root of its own.

    <task root>/home  tmp  xdg      what the process takes for the operator's places; nothing of the operator is in them
                work                 the one-time copy of the *.py files, the working directory, all that it may read
                output               for what a command leaves; this one leaves nothing
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.command_runner import CommandBounds, run_confined
from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import COMMAND_WALL_S, SEARCH_S, TASK_RESULT_BYTES
from agent_builder.protocol.ports import Clock
from agent_builder.sandbox.profiles import COMMAND_COMPILE
from agent_builder.storage.tasks import TaskState
from agent_builder.tools.command_end import Told, tell
from agent_builder.tools.private_directory import PRIVATE, in_a_thread, private_directory
from agent_builder.tools.python_sources import copy_sources, find_sources

_BOUNDS = CommandBounds(COMMAND_WALL_S, TASK_RESULT_BYTES)
_DIRECTORIES = ("home", "tmp", "xdg", "work", "output")


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """`root` is made for the Task and removed with it."""

    root: Path
    workspace: Path
    worker_env: Path
    clock: Clock


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a Task ended: a terminal state, a code where something was out of the ordinary, and what there is to read."""

    state: TaskState
    code: str | None = None
    result: str | None = None


async def compile_in(place: TaskPlace) -> TaskOutcome:
    """Completed when the command came to an end of its own, whatever it found; failed when it was stopped or never ran. The root
    is gone when this returns or raises. Raises SandboxFailed."""
    try:
        async with _task_root(place.root) as root:
            left_out = await in_a_thread(_copy, place, root / "work")
            end = await run_confined(
                COMMAND_COMPILE.name, place.worker_env, root / "work", [], _BOUNDS, place.clock, environment=_environment(root)
            )
    except FileRefused as refusal:
        return TaskOutcome("failed", refusal.reason, f"nothing was run: {refusal.sentence}")
    except OSError as error:
        return TaskOutcome("failed", "io_error", f"the Task's directory cannot be used ({error.strerror})")
    return _outcome(tell(end, left_out, TASK_RESULT_BYTES))


def _outcome(told: Told) -> TaskOutcome:
    return TaskOutcome("completed" if told.code in (None, "exit_code") else "failed", told.code, told.text)


@asynccontextmanager
async def _task_root(root: Path) -> AsyncIterator[Path]:
    await in_a_thread(root.parent.mkdir, PRIVATE, False, True)
    async with private_directory(root) as made:
        for name in _DIRECTORIES:
            (made / name).mkdir(PRIVATE)
        yield made


def _copy(place: TaskPlace, work: Path) -> tuple[str, ...]:
    end = place.clock.monotonic() + SEARCH_S
    sources = find_sources(place.workspace, lambda: place.clock.monotonic() > end)
    return copy_sources(place.workspace, sources, work)


def _environment(root: Path) -> dict[str, str]:
    xdg = {f"XDG_{kind}_HOME": str(root / "xdg") for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
    return {"HOME": str(root / "home"), "TMPDIR": str(root / "tmp"), **xdg}
