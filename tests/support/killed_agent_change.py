"""Run as a process: one change of an Agent, killed by SIGKILL before its n-th step. Exits 0 when it needs fewer steps.

    killed_agent_change.py CHECKOUT start|create|upgrade|delete N
"""

import asyncio
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

from agent_builder.agents import agent_files, lifecycle
from agent_builder.capsule import remove_tree as trees
from agent_builder.capsule.instructions import restore_default
from agent_builder.capsule.worker_env import write_worker_env
from agent_builder.protocol.checkout import Checkout
from agent_builder.storage.database import Database
from agent_builder.storage.registry import AgentState
from tests.support.agents import lifecycle_of
from tests.support.killed import counted, left

_STEPS = ("make_data_directories", "make_runtime_directories", "write_manifest", "keep_one_environment", "remove_agent_files", "remove_tree")


def half_removed(path: Path) -> None:
    """A removal is two steps: its files, then the rest."""
    for file in [one for one in path.rglob("*") if one.is_file()][::2]:
        file.unlink()
    whole_removal(path)


whole_removal = counted(shutil.rmtree)


async def main(root: str, change: str, steps: str) -> None:
    checkout = Checkout(Path(root))
    database = await lifecycle.open_registry_database(checkout)
    agents = lifecycle_of(
        checkout, database, write_worker_env=counted(write_worker_env), restore_instructions=counted(restore_default)
    )
    if change != "start":
        await agents.converge()
    for name in _STEPS:
        for module in (lifecycle, agent_files):
            if hasattr(module, name):
                setattr(module, name, counted(getattr(module, name)))
    trees.shutil = SimpleNamespace(rmtree=half_removed)
    Database.run, Database.open = counted(Database.run), staticmethod(counted(Database.open))
    left[0] = int(steps)
    await CHANGES[change](agents)
    await database.close()


async def upgrade(agents: lifecycle.Lifecycle) -> None:
    row = (await agents.agents())[-1]
    await agents.upgrade(await agents.begin(row.agent_id, AgentState.UPGRADING))


async def delete(agents: lifecycle.Lifecycle) -> None:
    row = (await agents.agents())[-1]
    await agents.delete(await agents.begin(row.agent_id, AgentState.DELETING))


CHANGES = {
    "start": lambda agents: agents.converge(),
    "create": lambda agents: agents.create("New"),
    "upgrade": upgrade,
    "delete": delete,
}

asyncio.run(main(*sys.argv[1:]))
