"""Publishes or removes a research environment in a process that kills itself before its n-th step: killed_research.py ROOT publish|remove N.
Ends with 0 when there were fewer steps."""

import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_builder.capsule import research_env
from agent_builder.capsule.research_lock import ResearchLock
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID

NOW = datetime(2026, 1, 1, tzinfo=UTC)
left = [0]


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    def step(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return step


def lock(version: str) -> ResearchLock:
    return ResearchLock(version, ())


def build(checkout: Checkout, content: str) -> None:
    """What an installer would leave."""
    building = research_env.make_staging(checkout, SYSTEM_AGENT_ID)
    (building / "bin").mkdir()
    (building / "package").mkdir()
    (building / "package/module.py").write_text(content)


def main(root: str, change: str, steps: str) -> None:
    checkout = Checkout(Path(root))
    if change == "publish":
        build(checkout, "new")
    for name in ("remove_tree", "_seal", "_sync_directory", "_sync_file_system", "_make_private"):
        setattr(research_env, name, counted(getattr(research_env, name)))
    for name in ("rename", "replace", "unlink"):
        setattr(Path, name, counted(getattr(Path, name)))
    left[0] = int(steps)
    if change == "publish":
        research_env.publish(checkout, SYSTEM_AGENT_ID, lock("new"), NOW)
    else:
        research_env.remove(checkout, SYSTEM_AGENT_ID)


if __name__ == "__main__":
    main(*sys.argv[1:])
