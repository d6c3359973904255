"""The *.py files of a workspace: which there are, and a private copy of them for a command that checks their syntax.

All of this blocks: it runs in a thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.safe_open import open_file
from agent_builder.capsule.walk import Walk
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.limits import COMPILE_BYTES, COMPILE_FILES
from agent_builder.tools.private_directory import PRIVATE


@dataclass(frozen=True, slots=True)
class Sources:
    """Bytes of each *.py file, and those that are left out with the reason."""

    sizes: dict[str, int]
    left_out: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Of the names alone: who approves a list approves checking these files, whatever stands in them by then."""
        return digest_of([list(self.sizes), list(self.left_out)])


NO_SOURCES = Sources({}, ())


def find_sources(workspace: Path, expired: Callable[[], bool]) -> Sources:
    """`expired` ends the walk. Raises FileRefused when there are none or too many."""
    sizes: dict[str, int] = {}
    left_out = []
    walk = Walk(workspace, expired)
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
    return Sources(sizes, tuple(left_out))


def copy_sources(workspace: Path, sources: Sources, directory: Path) -> tuple[str, ...]:
    """Copies the files of the list, as they are now, within the same bounds; gives what was left out. Raises FileRefused,
    OSError."""
    left_out, room = list(sources.left_out), COMPILE_BYTES
    for found in Walk(workspace, lambda: False).below():
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
        target.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
        target.write_bytes(data)
    return tuple(left_out)
