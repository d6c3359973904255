"""Watches the size of a Run's private directory, which is all that a Worker can write to."""

import os
from pathlib import Path

from agent_builder.protocol.errors import RunTreeLimit
from agent_builder.protocol.limits import (
    RUN_TREE_ALLOCATED_BYTES,
    RUN_TREE_BYTES,
    RUN_TREE_CHECK_S,
    RUN_TREE_ENTRIES,
    STAT_BLOCK_BYTES,
)
from agent_builder.protocol.ports import Clock


def check_tree(root: Path) -> None:
    """Raises RunTreeLimit as soon as a bound is passed. What vanishes meanwhile does not count."""
    entries = logical = allocated = 0
    waiting = [root]
    while waiting:
        try:
            found = list(os.scandir(waiting.pop()))
        except FileNotFoundError:
            continue
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            entries += 1
            logical += status.st_size
            allocated += status.st_blocks * STAT_BLOCK_BYTES
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            if entries > RUN_TREE_ENTRIES or logical > RUN_TREE_BYTES or allocated > RUN_TREE_ALLOCATED_BYTES:
                raise RunTreeLimit


async def watch_tree(root: Path, clock: Clock) -> None:
    """Looks once a second, until cancelled or RunTreeLimit."""
    while True:
        await clock.sleep(RUN_TREE_CHECK_S)
        check_tree(root)
