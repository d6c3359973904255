"""The folders of installed Skills: one per digest of its content, written once and never changed.

    <root>/<digest>/…        the files, 0400 in folders of 0500
    <root>/.new-<id>/        being written: renamed when all of it is on the disk
    <root>/.gone-<id>/       being removed

A row in the database makes a folder count; `tidy` removes what a crash left without one. All of this blocks.
"""

import os
import stat
from pathlib import Path

from agent_builder.capsule.remove_tree import remove_tree
from agent_builder.capsule.skill_archive import files_digest
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import SKILL_BYTES, SKILL_ENTRIES, SKILL_FILE_BYTES
from agent_builder.storage.private_files import PRIVATE_DIRECTORY, make_private_directory, sync, write_private

_SEALED_FILE, _SEALED_FOLDER = 0o400, 0o500


class SkillDamaged(Exception):
    """The files of a Skill are not the ones that were installed."""


def write_skill(root: Path, digest: str, files: dict[str, bytes]) -> None:
    """Whole or not at all; a folder that is there already stays as it is, unless it was damaged. Raises OSError."""
    make_private_directory(root)
    if _intact(root, digest):
        return
    building = root / f".new-{new_id()}"
    try:
        write_files(building, files)
        for folder, _, names in os.walk(building, topdown=False):
            for name in names:
                _seal(Path(folder, name), _SEALED_FILE)
            _seal(Path(folder), _SEALED_FOLDER)
        remove_skill(root, digest)
        os.chmod(building, PRIVATE_DIRECTORY)  # a folder that may not be written in cannot be renamed: its .. changes
        building.rename(root / digest)
        _seal(root / digest, _SEALED_FOLDER)
    except BaseException:
        remove_tree(building)
        raise
    sync(root)
    sync(root.parent)


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Into a private folder, which is made where it is missing. Raises OSError."""
    for path, content in files.items():
        target = folder / path
        for parent in reversed(target.relative_to(folder).parents):
            make_private_directory(folder / parent)
        write_private(target, content)


def read_skill(root: Path, digest: str) -> dict[str, bytes]:
    """Every file by its path, as it was installed. Raises SkillDamaged."""
    files: dict[str, bytes] = {}
    left = SKILL_BYTES
    try:
        for path in sorted((root / digest).rglob("*")):
            if path.is_dir() and not path.is_symlink():
                continue
            content = _content(path, min(left, SKILL_FILE_BYTES))
            left -= len(content)
            files[str(path.relative_to(root / digest))] = content
            if len(files) > SKILL_ENTRIES:
                raise SkillDamaged
    except OSError as error:
        raise SkillDamaged from error
    if files_digest(files) != digest:
        raise SkillDamaged
    return files


def _intact(root: Path, digest: str) -> bool:
    try:
        read_skill(root, digest)
    except SkillDamaged:
        return False
    return True


def remove_skill(root: Path, digest: str) -> None:
    """Out of its place first, so that no half of it is ever found there."""
    place = root / digest
    if place.is_symlink() or not place.exists():
        return
    gone = root / f".gone-{new_id()}"
    place.chmod(PRIVATE_DIRECTORY)
    place.rename(gone)
    sync(root)
    remove_tree(gone)


def tidy(root: Path, digests: frozenset[str]) -> frozenset[str]:
    """Removes everything but the folders of these digests. Gives those that are there."""
    if not root.is_dir():
        return frozenset()
    for path in root.iterdir():
        if path.name not in digests:
            remove_tree(path)
    return frozenset(path.name for path in root.iterdir() if path.is_dir() and not path.is_symlink())


def _content(path: Path, most: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SkillDamaged
        content = file.read(most + 1)
    if len(content) > most:
        raise SkillDamaged
    return content


def _seal(path: Path, mode: int) -> None:
    path.chmod(mode)
    sync(path)
