"""The tracked status of a workspace that is itself a Git repository, from a confined helper that may only read."""

import os
import stat
from pathlib import Path

from agent_builder.capsule.command_runner import CommandBounds, CommandEnd, run_confined
from agent_builder.protocol.errors import SandboxFailed
from agent_builder.protocol.limits import GIT_STATUS_BYTES, GIT_STATUS_S
from agent_builder.protocol.ports import Clock
from agent_builder.sandbox.profiles import GIT_STATUS

_INEXACT = "(git reported problems; this status may be inexact)\n"
_TRUNCATED = "(more changes than shown)\n"


async def git_status(workspace: Path, worker_env: Path, clock: Clock) -> str | None:
    """Lines of `git status --porcelain --branch` without untracked files, at most GIT_STATUS_BYTES: untrusted data. None
    where the workspace is no repository, git is missing, or it gives no answer within GIT_STATUS_S."""
    if not _is_repository(workspace):
        return None
    bounds = CommandBounds(GIT_STATUS_S, GIT_STATUS_BYTES - len(_INEXACT) - len(_TRUNCATED))
    try:
        end = await run_confined(GIT_STATUS.name, worker_env, Path(os.path.realpath(workspace)), [], bounds, clock)
    except SandboxFailed:
        return None  # a status is an extra; a Turn does not depend on it
    return _shown(end)


def _is_repository(workspace: Path) -> bool:
    try:
        found = os.lstat(workspace / ".git")
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _shown(end: CommandEnd) -> str | None:
    """Only whole lines of an answer that was cut."""
    if end.stopped == "wall_clock" or (end.status != 0 and end.stopped is None):
        return None
    text = end.stdout.decode("utf-8", "replace")
    if end.stopped == "output":
        text = text[: text.rfind("\n") + 1] + _TRUNCATED
    return (_INEXACT if end.stderr else "") + text or None
