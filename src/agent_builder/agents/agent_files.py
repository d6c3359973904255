"""The directories and files of one Agent, made and removed by steps that may be repeated after a crash.

Directories have mode 0700 and files 0600 whatever the umask. All of this blocks: it runs in a thread.
"""

import os
from pathlib import Path

from agent_builder.capsule.remove_tree import remove_tree
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.digest import canonical_json
from agent_builder.protocol.ids import AgentId
from agent_builder.storage.registry import AgentRow

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_MANIFEST_FORMAT = 1


def make_roots(checkout: Checkout) -> None:
    """What all Agents share."""
    for path in (checkout.data, checkout.agents_data, checkout.runtime, checkout.agents_runtime):
        _make_private(path)


def make_data_directories(checkout: Checkout, agent_id: AgentId) -> None:
    for path in (checkout.agent_data(agent_id), checkout.workspace(agent_id)):
        _make_private(path)


def make_runtime_directories(checkout: Checkout, agent_id: AgentId) -> None:
    runtime = checkout.agent_runtime(agent_id)
    for path in (checkout.runtime, checkout.agents_runtime, runtime, checkout.runs(agent_id), runtime / "worker-env"):
        _make_private(path)


def write_manifest(checkout: Checkout, row: AgentRow) -> None:
    """What a backup is checked against: whose data this is. Name and generation are in the registry alone."""
    target = checkout.manifest(row.agent_id)
    content = canonical_json(
        {"format": _MANIFEST_FORMAT, "agent_id": row.agent_id, "created_at": row.created_at.isoformat()}
    )
    partial = target.with_name(target.name + ".tmp")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, _FILE_MODE)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    partial.replace(target)
    _sync_directory(target.parent)


def keep_one_environment(checkout: Checkout, agent_id: AgentId, generation: int) -> None:
    """Removes what earlier generations and unfinished builds left."""
    kept = checkout.worker_env(agent_id, generation)
    for path in kept.parent.iterdir() if kept.parent.is_dir() else ():
        if path != kept:
            remove_tree(path)


def remove_agent_files(checkout: Checkout, agent_id: AgentId) -> None:
    """The runtime root first: while data is left, so is the Agent's row."""
    remove_tree(checkout.agent_runtime(agent_id))
    remove_tree(checkout.agent_data(agent_id))


def _make_private(path: Path) -> None:
    path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    path.chmod(_DIRECTORY_MODE)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
