"""Publishes or removes a research environment in a process that kills itself before its n-th step: killed_research.py ROOT publish|remove N.
Ends with 0 when there were fewer steps."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from agent_builder.capsule import research_env
from agent_builder.capsule.research_lock import ResearchLock
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID
from agent_builder.storage import private_files
from tests.support.killed import counted, left

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
    for module, names in (
        (research_env, ("remove_tree", "_seal", "sync", "_sync_file_system", "make_private_directory")), (private_files, ("write_private", "sync")),
    ):
        for name in names:
            setattr(module, name, counted(getattr(module, name)))
    for name in ("rename", "replace", "unlink"):
        setattr(Path, name, counted(getattr(Path, name)))
    left[0] = int(steps)
    if change == "publish":
        research_env.publish(checkout, SYSTEM_AGENT_ID, lock("new"), NOW)
    else:
        research_env.remove(checkout, SYSTEM_AGENT_ID)


if __name__ == "__main__":
    main(*sys.argv[1:])
