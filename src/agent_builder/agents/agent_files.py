"""The directories and files of one Agent, made and removed by steps that may be repeated after a crash.

Directories have mode 0700 and files 0600 whatever the umask. All of this blocks: it runs in a thread.
"""


from agent_builder.capsule.remove_tree import remove_tree
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.digest import canonical_json
from agent_builder.protocol.ids import AgentId
from agent_builder.storage.private_files import make_private_directory, replace_private
from agent_builder.storage.registry import AgentRow

_MANIFEST_FORMAT = 1


def make_roots(checkout: Checkout) -> None:
    """What all Agents share."""
    for path in (checkout.data, checkout.agents_data, checkout.runtime, checkout.agents_runtime):
        make_private_directory(path)


def make_data_directories(checkout: Checkout, agent_id: AgentId) -> None:
    for path in (checkout.agent_data(agent_id), checkout.workspace(agent_id)):
        make_private_directory(path)


def make_runtime_directories(checkout: Checkout, agent_id: AgentId) -> None:
    runtime = checkout.agent_runtime(agent_id)
    for path in (checkout.runtime, checkout.agents_runtime, runtime, checkout.runs(agent_id), runtime / "worker-env"):
        make_private_directory(path)


def write_manifest(checkout: Checkout, row: AgentRow) -> None:
    """What a backup is checked against: whose data this is. Name and generation are in the registry alone."""
    target = checkout.manifest(row.agent_id)
    content = canonical_json(
        {"format": _MANIFEST_FORMAT, "agent_id": row.agent_id, "created_at": row.created_at.isoformat()}
    )
    replace_private(target, content)


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
