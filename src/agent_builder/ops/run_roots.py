"""Left-over roots of Runs, spare Workers and Tasks: removed only after proof that no process uses them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from agent_builder.protocol.limits import COMMAND_LINE_BYTES

_LINKS = ("cwd", "root", "exe")


def remove_unused_roots(agents_runtime: Path) -> list[Path]:
    """Call it only while no Gateway runs. Returns the roots that are still in use and were left."""
    roots = [root for kind in ("runs", "spare", "tasks") for root in agents_runtime.glob(f"*/{kind}/*")]
    if not roots:
        return []
    used = set(_used(roots))
    for root in roots:
        if root in used:
            continue
        if root.is_symlink() or not root.is_dir():
            root.unlink()
        else:
            shutil.rmtree(root)
    return sorted(used)


def _used(roots: list[Path]) -> Iterator[Path]:
    """A hardened Worker hides its files, but not its command line: it counts as a user of every root of its Agent."""
    prefixes = {root: (os.path.realpath(root), os.path.realpath(root.parents[1] / "worker-env")) for root in roots}
    for process in filter(str.isdigit, os.listdir("/proc")):
        places = list(_places(process))
        for root, owned in prefixes.items():
            if any(place == prefix or place.startswith(prefix + "/") for place in places for prefix in owned):
                yield root


def _places(process: str) -> Iterator[str]:
    """Every path by which a process may use a directory; a process that ended meanwhile has none."""
    folder = f"/proc/{process}"
    for name in _LINKS:
        yield from _target(f"{folder}/{name}")
    try:
        with open(f"{folder}/cmdline", "rb") as file:
            yield from (os.fsdecode(argument) for argument in file.read(COMMAND_LINE_BYTES).split(b"\0"))
        for descriptor in os.listdir(f"{folder}/fd"):
            yield from _target(f"{folder}/fd/{descriptor}")
    except OSError:
        return  # gone, hidden, or another user's: that one cannot be inside directories of mode 0700


def _target(link: str) -> Iterator[str]:
    try:
        yield os.readlink(link)
    except OSError:
        return
