"""A bounded walk over the files of a workspace, in the UTF-8 order of their paths.

Every directory is entered through its descriptor, so a swapped name cannot lead outside. Links, `.git` and other people's
directories are not entered. What is left out is counted, so that an answer can say how complete it is.
"""

import heapq
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_builder.capsule.paths import (
    RESERVED_PREFIX,
    FileRefused,
    WorkspacePath,
    usable_name,
)
from agent_builder.capsule.safe_open import OpenDirectory, Place, check_file, open_directory, open_subdirectory
from agent_builder.protocol.limits import PATH_BYTES, SEARCH_DEPTH, SEARCH_ENTRIES

_GIT = ".git"


@dataclass(frozen=True, slots=True)
class Found:
    """An entry: `refusal` says why the tools would not read it. `parent` is open only until the next entry is asked for."""

    path: WorkspacePath
    parent: OpenDirectory
    directory: bool
    bytes: int
    refusal: FileRefused | None


@dataclass(slots=True)
class Walk:
    """One walk and what it left out: `skipped` counts by reason, `truncated` names the bounds that ended it early. `chain`: the
    directories down to the one where it began."""

    workspace: Path
    expired: Callable[[], bool]
    skipped: Counter[str] = field(default_factory=Counter)
    truncated: set[str] = field(default_factory=set)
    entries: int = 0
    chain: tuple[Place, ...] = ()

    def below(self, start: tuple[str, ...] = ()) -> Iterator[Found]:
        """Everything below a directory. Raises FileRefused when that directory itself cannot be opened."""
        with open_directory(self.workspace, start) as directory:
            self.chain = directory.chain
            yield from self._directory(directory, 0)

    def _directory(self, directory: OpenDirectory, depth: int) -> Iterator[Found]:
        for name, found in self._entries(directory):
            if self.expired():
                self.truncated.add("time")
                return
            if self.entries >= SEARCH_ENTRIES:
                self.truncated.add("entries")
                return
            self.entries += 1
            yield from self._entry(directory, name, found, depth)
            if self.truncated & {"time", "entries"}:
                return

    def _entry(self, directory: OpenDirectory, name: str, found: os.stat_result, depth: int) -> Iterator[Found]:
        path = WorkspacePath((*directory.parts, name))
        if len(path.text.encode()) > PATH_BYTES:
            self.skipped["long path"] += 1
        elif not stat.S_ISDIR(found.st_mode):
            yield Found(path, directory, False, found.st_size, _refusal(found, path))
        else:
            yield Found(path, directory, True, 0, None)
            yield from self._below(directory, name, depth)

    def _below(self, directory: OpenDirectory, name: str, depth: int) -> Iterator[Found]:
        if depth >= SEARCH_DEPTH:
            self.truncated.add("depth")
            return
        try:
            with open_subdirectory(directory, name) as inner:
                yield from self._directory(inner, depth + 1)
        except FileRefused as refusal:
            self.skipped[f"directory: {refusal.reason}"] += 1

    def _entries(self, directory: OpenDirectory) -> list[tuple[str, os.stat_result]]:
        """The first entries in path order, never more than the walk may still look at, and one to notice that."""
        wanted = SEARCH_ENTRIES - self.entries + 1
        return heapq.nsmallest(wanted, self._scan(directory), key=_path_order)

    def _scan(self, directory: OpenDirectory) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(directory.descriptor) as entries:
            for entry in entries:
                if self.expired():
                    self.truncated.add("time")
                    return
                if entry.name.lower() == _GIT or entry.name.startswith(RESERVED_PREFIX):
                    continue
                if not usable_name(entry.name):
                    self.skipped["unusual name"] += 1
                    continue
                try:
                    yield entry.name, entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed since the directory was read


def _refusal(found: os.stat_result, path: WorkspacePath) -> FileRefused | None:
    try:
        check_file(found, path.text)
    except FileRefused as refusal:
        return refusal
    return None


def _path_order(entry: tuple[str, os.stat_result]) -> bytes:
    """A directory sorts as what is below it does: with the slash."""
    name = entry[0].encode()
    return name + b"/" if stat.S_ISDIR(entry[1].st_mode) else name
