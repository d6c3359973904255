import itertools
from pathlib import Path

import pytest

from agent_builder.protocol.errors import AgentLimit, NotFound
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, new_id
from agent_builder.protocol.limits import AGENTS, REGISTRY_BYTES
from agent_builder.storage.database import Database
from agent_builder.storage.migrations import REGISTRY_MIGRATIONS
from agent_builder.storage.registry import (
    AgentRow,
    AgentState,
    IllegalAgentMove,
    get_agent,
    insert_agent,
    list_agents,
    move_agent,
    remove_agent,
    rename_agent,
)
from tests.support.stored import AGENT, NOW

CREATING, ACTIVE, UPGRADING, DELETING = AgentState.CREATING, AgentState.ACTIVE, AgentState.UPGRADING, AgentState.DELETING
LEGAL = {(CREATING, ACTIVE), (CREATING, DELETING), (ACTIVE, UPGRADING), (ACTIVE, DELETING), (UPGRADING, ACTIVE)}
WAY = {CREATING: [], ACTIVE: [ACTIVE], UPGRADING: [ACTIVE, UPGRADING], DELETING: [ACTIVE, DELETING]}


@pytest.fixture
async def registry(tmp_path: Path):
    database = await Database.open(tmp_path / "registry.sqlite", REGISTRY_MIGRATIONS, max_bytes=REGISTRY_BYTES)
    yield database
    await database.close()


def in_state(conn, state: AgentState) -> None:
    insert_agent(conn, AGENT, "Name", NOW)
    for step in WAY[state]:
        move_agent(conn, AGENT, step)


async def test_a_new_agent_is_being_created_in_generation_one(registry: Database) -> None:
    made = await registry.run(lambda conn: insert_agent(conn, AGENT, "Name", NOW))
    assert made == AgentRow(AGENT, "Name", False, 1, CREATING, None, NOW)
    assert await registry.read(lambda conn: get_agent(conn, AGENT)) == made


@pytest.mark.parametrize(("state", "target"), [*itertools.product(AgentState, AgentState)])
async def test_an_agent_moves_along_the_table_and_nowhere_else(registry: Database, state: AgentState, target: AgentState) -> None:
    await registry.run(lambda conn: in_state(conn, state))
    if (state, target) in LEGAL:
        moved = await registry.run(lambda conn: move_agent(conn, AGENT, target))
        assert (moved.state, moved.generation, moved.target_generation) == (target, 1, 2 if target is UPGRADING else None)
    else:
        with pytest.raises(IllegalAgentMove):
            await registry.run(lambda conn: move_agent(conn, AGENT, target))


@pytest.mark.parametrize(("switch", "generation"), [(True, 2), (False, 1)])
async def test_an_upgrade_switches_to_its_target_or_gives_it_up(registry: Database, switch: bool, generation: int) -> None:
    await registry.run(lambda conn: in_state(conn, UPGRADING))
    row = await registry.run(lambda conn: move_agent(conn, AGENT, ACTIVE, switch=switch))
    assert row == AgentRow(AGENT, "Name", False, generation, ACTIVE, None, NOW)


@pytest.mark.parametrize("state", [*AgentState])
async def test_only_an_agent_in_creation_or_deletion_is_removed(registry: Database, state: AgentState) -> None:
    await registry.run(lambda conn: in_state(conn, state))
    if state in (CREATING, DELETING):
        await registry.run(lambda conn: remove_agent(conn, AGENT))
        assert await registry.read(list_agents) == []
    else:
        with pytest.raises(IllegalAgentMove):
            await registry.run(lambda conn: remove_agent(conn, AGENT))


async def test_the_list_has_the_system_agent_first_and_names_may_be_equal(registry: Database) -> None:
    def fill(conn):
        insert_agent(conn, AGENT, "Same", NOW)
        insert_agent(conn, new_id(), "Same", NOW)
        insert_agent(conn, SYSTEM_AGENT_ID, "Assistant", NOW, system=True)
        rename_agent(conn, AGENT, "Other")
        return [(row.name, row.system) for row in list_agents(conn)]

    assert await registry.run(fill) == [("Assistant", True), ("Other", False), ("Same", False)]


async def test_the_thirty_second_agent_is_made_and_the_next_refused(registry: Database) -> None:
    await registry.run(lambda conn: [insert_agent(conn, new_id(), "x", NOW) for _ in range(AGENTS)])
    with pytest.raises(AgentLimit):
        await registry.run(lambda conn: insert_agent(conn, new_id(), "x", NOW))


@pytest.mark.parametrize("use", [get_agent, remove_agent, lambda conn, one: rename_agent(conn, one, "x"), lambda conn, one: move_agent(conn, one, ACTIVE)])
async def test_an_unknown_agent_is_not_found(registry: Database, use) -> None:
    with pytest.raises(NotFound):
        await registry.run(lambda conn: use(conn, "none"))
