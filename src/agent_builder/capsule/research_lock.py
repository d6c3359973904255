"""What a research environment is made of: the packages of config/research-documents.txt, each with the hashes of its files."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from agent_builder.protocol.digest import digest_of

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s\\;]+)")


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """`requirement`: its lines in the lock file, hashes included."""

    package: Package
    requirement: str


@dataclass(frozen=True, slots=True)
class ResearchLock:
    """`version`: names the packages, their files, and the interpreter and machine that they must fit."""

    version: str
    locked: tuple[LockedPackage, ...]

    @property
    def packages(self) -> tuple[Package, ...]:
        return tuple(one.package for one in self.locked)


def read_lock(path: Path) -> ResearchLock:
    """Raises OSError, and ValueError for a line that is no requirement."""
    text = path.read_text()
    return ResearchLock(_version(text), tuple(_locked(block) for block in _blocks(text)))


def lock_version(path: Path) -> str:
    """The `version` alone. Raises OSError."""
    return _version(path.read_text())


def plain_name(name: str) -> str:
    """One spelling of a package's name; source: the packaging specifications, "Names and normalization"."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(text: str) -> str:
    return digest_of([text, sys.implementation.cache_tag, os.uname().machine])


def _blocks(text: str) -> list[str]:
    """One requirement with its continued lines each."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    starts = [index for index, line in enumerate(lines) if not line.startswith(" ")]
    return ["\n".join(lines[start:end]) + "\n" for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _locked(block: str) -> LockedPackage:
    found = _REQUIREMENT.match(block)
    if found is None:
        raise ValueError("a line of the lock file names no package and version")
    return LockedPackage(Package(plain_name(found["name"]), found["version"]), block)
