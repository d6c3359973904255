"""The research and document environment of one Agent: a sealed directory of packages, and the record that says it is whole.

    .runtime/agents/<id>/dependencies/research-documents/            the packages; directories 0700, files 0400
    .runtime/agents/<id>/dependencies/research-documents.building/   one that is being installed
    data/agents/<id>/dependencies/research-documents.json            the record, written last and removed first

There is an environment only where both the directory and its record are; either alone is what a crash left. Everything here
blocks but is short, apart from `publish` and `remove`.
"""

import ctypes
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent_builder.capsule.remove_tree import remove_tree
from agent_builder.capsule.research_lock import Package, ResearchLock, lock_version
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.digest import canonical_json
from agent_builder.protocol.ids import AgentId
from agent_builder.sandbox.linux_calls import library_call
from agent_builder.storage.private_files import (
    PRIVATE_DIRECTORY,
    make_private_directory,
    partial_of,
    replace_private,
    sync,
)

_FORMAT = 1
_SEALED_FILE = 0o400
_UNUSED = (".lock", "bin")  # uv's own lock, writable for everyone; commands that nobody runs


@dataclass(frozen=True, slots=True)
class ResearchEnv:
    """`version`: see ResearchLock. `path`: what goes first on a reader's module path."""

    path: Path
    version: str
    packages: tuple[Package, ...]
    installed_at: datetime


def recorded(checkout: Checkout, agent_id: AgentId) -> ResearchEnv | None:
    """What is installed, also for another version of this program."""
    path = checkout.research_env(agent_id)
    try:
        record = json.loads(checkout.research_record(agent_id).read_bytes())
        if not path.is_dir() or record["format"] != _FORMAT:
            return None
        packages = tuple(Package(one["name"], one["version"]) for one in record["packages"])
        return ResearchEnv(path, record["version"], packages, datetime.fromisoformat(record["installed_at"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # not written by this program: as if there were none


def installed(checkout: Checkout, agent_id: AgentId) -> ResearchEnv | None:
    """The environment that a Run may use: made from this lock file, for this interpreter."""
    found = recorded(checkout, agent_id)
    return found if found is not None and found.version == lock_version(checkout.research_lock) else None


def staging(checkout: Checkout, agent_id: AgentId) -> Path:
    path = checkout.research_env(agent_id)
    return path.with_name(path.name + ".building")


def make_staging(checkout: Checkout, agent_id: AgentId) -> Path:
    """An empty private directory in the place of what an earlier try left there."""
    path = staging(checkout, agent_id)
    make_private_directory(path.parent)
    remove_tree(path)
    path.mkdir(mode=PRIVATE_DIRECTORY)
    return path


def remove_staging(checkout: Checkout, agent_id: AgentId) -> None:
    remove_tree(staging(checkout, agent_id))


def publish(checkout: Checkout, agent_id: AgentId, lock: ResearchLock, now: datetime) -> ResearchEnv:
    """Seals what was built, puts it in place and records it. An earlier environment goes. A crash at any step leaves the former
    one, or none."""
    building, target = staging(checkout, agent_id), checkout.research_env(agent_id)
    for name in _UNUSED:
        remove_tree(building / name)
    _seal(building)
    _sync_file_system(building.parent)
    remove(checkout, agent_id)
    building.rename(target)
    sync(target.parent)
    made = ResearchEnv(target, lock.version, lock.packages, now)
    _write_record(checkout.research_record(agent_id), made)
    return made


def remove(checkout: Checkout, agent_id: AgentId) -> None:
    """May be repeated; nothing there is fine."""
    record = checkout.research_record(agent_id)
    if record.exists():
        record.unlink()
        sync(record.parent)
    remove_tree(checkout.research_env(agent_id))


def converge(checkout: Checkout, agent_id: AgentId) -> bool:
    """At start, before anybody installs: removes what was left half-way. Whether there was anything."""
    record, target, building = checkout.research_record(agent_id), checkout.research_env(agent_id), staging(checkout, agent_id)
    partial = partial_of(record)
    whole = recorded(checkout, agent_id) is not None
    found = [path for path in (building, partial, *(() if whole else (record, target))) if os.path.lexists(path)]
    for path in found:
        remove_tree(path)
    return bool(found)


def _write_record(target: Path, made: ResearchEnv) -> None:
    make_private_directory(target.parent)
    packages = [{"name": one.name, "version": one.version} for one in made.packages]
    content = canonical_json(
        {"format": _FORMAT, "version": made.version, "packages": packages, "installed_at": made.installed_at.isoformat()}
    )
    replace_private(target, content)


def _seal(root: Path) -> None:
    """No file may be written any more. Directories stay their owner's, who can remove the checkout like any other folder."""
    for parent, directories, files in os.walk(root):
        for name in files:
            os.chmod(os.path.join(parent, name), _SEALED_FILE)
        for name in directories:
            os.chmod(os.path.join(parent, name), PRIVATE_DIRECTORY)


def _sync_file_system(path: Path) -> None:
    """One call for the thousand files that uv wrote."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        library_call("syncfs", ctypes.c_int(descriptor))
    finally:
        os.close(descriptor)
