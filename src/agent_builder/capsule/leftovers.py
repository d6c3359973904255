"""Clears what a crash left of a write in progress. Which file is what stands in its name, see atomic_replace.py."""

import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from agent_builder.capsule.atomic_replace import NEW, SWAP, exchange_names, publish_name
from agent_builder.capsule.displaced import content_digest
from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.safe_open import OpenDirectory, open_directory, open_subdirectory
from agent_builder.protocol.limits import FILE_BYTES, LEFTOVER_ENTRIES, RESERVED_TEMPS, SEARCH_DEPTH

_OURS = re.compile(rf"({re.escape(NEW)}|{re.escape(SWAP)}[0-9]+-[0-9a-f]{{64}}-)[0-9a-f]{{16}}")
"""Exactly the names that atomic_replace.py gives: a file that somebody else called something like it is not touched."""
_log = logging.getLogger(__name__)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_reserved_temps(workspace: Path) -> int:
    """Removes at most RESERVED_TEMPS left-over files, and puts back what an interrupted exchange displaced unverified.
    To be called while no Run of this workspace is active. Gives the number of files dealt with. What cannot be looked at
    or cleared stays as it is, with a line in the log: it must not keep the operator from the Agent."""
    cleaned = 0
    try:
        with open_directory(workspace, ()) as root:
            for directory, name in _reserved(root, 0, [LEFTOVER_ENTRIES]):
                cleaned += _cleaned(directory, name)
                if cleaned == RESERVED_TEMPS:
                    break
    except (FileRefused, OSError) as fault:
        _log.warning("left-over files of %s are not looked for: %s", workspace, fault)
    return cleaned


def _cleaned(directory: OpenDirectory, name: str) -> bool:
    try:
        _clean(directory.descriptor, name)
    except OSError as error:
        _log.warning("the left-over file %s stays: %s", "/".join((*directory.parts, name)), error.strerror)
        return False
    return True


def _reserved(directory: OpenDirectory, depth: int, budget: list[int]) -> Iterator[tuple[OpenDirectory, str]]:
    for name in sorted(os.listdir(directory.descriptor)):
        budget[0] -= 1
        if budget[0] < 0:
            return
        found = _stat(directory.descriptor, name)
        if found is None:
            continue
        if stat.S_ISREG(found.st_mode) and _OURS.fullmatch(name):
            yield directory, name
        elif stat.S_ISDIR(found.st_mode) and name != ".git" and depth < SEARCH_DEPTH:
            yield from _below(directory, name, depth, budget)


def _below(directory: OpenDirectory, name: str, depth: int, budget: list[int]) -> Iterator[tuple[OpenDirectory, str]]:
    try:
        with open_subdirectory(directory, name) as inner:
            yield from _reserved(inner, depth + 1, budget)
    except (FileRefused, UnicodeEncodeError, OSError):
        return  # no write of ours can have been there


def _clean(directory: int, name: str) -> None:
    if name.startswith(SWAP):
        inode, digest = _announced(name)
        if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino != inode and _digest(directory, name) != digest:
            _put_back(directory, name, inode)
            return
    os.unlink(name, dir_fd=directory)


def _put_back(directory: int, name: str, inode: int) -> None:
    """Somebody's edit: it returns to its own name if our text still stands there, else it gets a name that shows it."""
    target = _named_by(directory, inode)
    if target is None:
        publish_name(directory, os.fsencode(name), f"recovered-{secrets.token_hex(4)}".encode())
        return
    exchange_names(directory, os.fsencode(name), os.fsencode(target))
    if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino == inode:
        os.unlink(name, dir_fd=directory)


def _named_by(directory: int, inode: int) -> str | None:
    for name in os.listdir(directory):
        found = _stat(directory, name)
        if found is not None and stat.S_ISREG(found.st_mode) and found.st_ino == inode:
            return name
    return None


def _announced(name: str) -> tuple[int, str]:
    """Inode and digest in a `swap-` name."""
    inode, _, rest = name.removeprefix(SWAP).partition("-")
    return int(inode), rest.partition("-")[0]


def _digest(directory: int, name: str) -> str:
    descriptor = os.open(name, _READ, dir_fd=directory)
    try:
        return content_digest(descriptor, FILE_BYTES)
    finally:
        os.close(descriptor)


def _stat(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
