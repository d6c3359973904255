import asyncio
import os
import threading
from pathlib import Path

import pytest

from agent_builder.agents.registry import AgentView
from agent_builder.capsule.worker_env import write_worker_env
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.errors import (
    AgentDamaged,
    AgentDraining,
    AgentLimit,
    InvalidRequest,
    NotFound,
    ProtectedAgent,
)
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, is_id
from agent_builder.protocol.limits import AGENTS
from agent_builder.storage.conversations import list_conversations
from agent_builder.storage.turns import get_turn_by_run
from tests.support.agents import Opened, opened, tree
from tests.support.stored import NOW, begun, conversation


async def phase(agents: Opened, agent_id: str) -> str:
    return agents.registry.view(await agents.registry.get(agent_id)).phase


async def test_the_system_agent_is_there_from_the_first_start(agents: Opened) -> None:
    rows = await agents.registry.list()
    assert [agents.registry.view(row) for row in rows] == [AgentView(SYSTEM_AGENT_ID, "Assistant", True, 1, "ready", 0, NOW)]


async def test_the_system_agent_cannot_be_renamed_upgraded_or_deleted(agents: Opened) -> None:
    registry = agents.registry
    for change in (registry.rename(SYSTEM_AGENT_ID, "Mine"), registry.upgrade(SYSTEM_AGENT_ID), registry.delete(SYSTEM_AGENT_ID)):
        with pytest.raises(ProtectedAgent):
            await change
    assert await phase(agents, SYSTEM_AGENT_ID) == "ready"


async def test_a_created_agent_is_whole_and_private_under_an_open_umask(agents: Opened) -> None:
    earlier = os.umask(0)
    try:
        row = await agents.registry.create("  New one ")
        await agents.registry.runtime(row.agent_id)
    finally:
        os.umask(earlier)
    assert is_id(row.agent_id)
    assert agents.registry.view(row) == AgentView(row.agent_id, "New one", False, 1, "ready", 0, NOW)
    modes = [path.stat().st_mode & 0o077 for root in (agents.checkout.data, agents.checkout.runtime) for path in root.rglob("*")]
    assert set(modes) == {0}


async def test_names_follow_the_rules_of_titles_and_may_be_equal(agents: Opened) -> None:
    for name in ("", "\u3000\u200b", "a\u0000b", "\u202eevil", "x" * 121):
        with pytest.raises(InvalidRequest):
            await agents.registry.create(name)
    first, second = await agents.registry.create("Same"), await agents.registry.create("Same")
    with pytest.raises(InvalidRequest):
        await agents.registry.rename(first.agent_id, "line1\nline2")
    assert [row.name for row in await agents.registry.list()] == ["Assistant", "Same", "Same"]
    assert first.agent_id != second.agent_id


async def test_a_rename_changes_the_name_and_nothing_else(checkout: Checkout) -> None:
    async with opened(checkout) as agents:
        row = await agents.registry.create("Old")
        runtime = await agents.registry.runtime(row.agent_id)
        files = tree(checkout.agent_data(row.agent_id)), tree(checkout.agent_runtime(row.agent_id))
        renamed = await agents.registry.rename(row.agent_id, "New")
        assert (renamed.name, renamed.generation, renamed.state) == ("New", 1, row.state)
        assert (tree(checkout.agent_data(row.agent_id)), tree(checkout.agent_runtime(row.agent_id))) == files
        assert await agents.registry.runtime(row.agent_id) is runtime
        assert agents.drains == []
    async with opened(checkout) as again:
        assert (await again.registry.get(row.agent_id)).name == "New"


async def test_thirty_two_agents_are_the_most(agents: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_builder.storage.registry.AGENTS", 3)
    assert AGENTS == 32
    made = await asyncio.gather(*(agents.registry.create(f"Agent {number}") for number in range(4)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in made) == ["AgentLimit", "AgentLimit", "AgentRow", "AgentRow"]
    with pytest.raises(AgentLimit):
        await agents.registry.create("One more")
    assert len(await agents.registry.list()) == 3
    assert len([*agents.checkout.agents_data.iterdir()]) == 3


async def test_a_runtime_is_opened_on_first_use_and_once(agents: Opened) -> None:
    assert agents.openings == []
    first, second = await asyncio.gather(*(agents.registry.runtime(SYSTEM_AGENT_ID) for _ in range(2)))
    assert first is second is await agents.registry.runtime(SYSTEM_AGENT_ID)
    assert agents.openings == [SYSTEM_AGENT_ID]


async def test_unknown_agents_are_not_found(agents: Opened) -> None:
    registry = agents.registry
    for use in (registry.get("none"), registry.runtime("none"), registry.rename("none", "x"), registry.upgrade("none"), registry.delete("none")):
        with pytest.raises(NotFound):
            await use


async def test_an_upgrade_returns_fenced_then_drains_builds_and_switches(agents: Opened) -> None:
    row = await agents.registry.create("Other")
    runtime = await agents.registry.runtime(row.agent_id)
    await runtime.database.run(lambda conn: conversation(conn, "kept"))
    agents.runs[row.agent_id] = 1
    assert await phase(agents, row.agent_id) == "running"
    agents.gate.clear()
    fenced = await agents.registry.upgrade(row.agent_id)
    assert (fenced.state, fenced.generation, fenced.target_generation) == ("upgrading", 1, 2)
    assert await phase(agents, row.agent_id) == "draining"
    for use in (agents.registry.runtime(row.agent_id), agents.registry.upgrade(row.agent_id), agents.registry.delete(row.agent_id)):
        with pytest.raises(AgentDraining):
            await use
    agents.gate.set()
    await agents.settled()
    view = agents.registry.view(await agents.registry.get(row.agent_id))
    assert (view.generation, view.phase, view.running) == (2, "ready", 0)
    assert [path.name for path in (agents.checkout.agent_runtime(row.agent_id) / "worker-env").iterdir()] == ["2"]
    with pytest.raises(AgentDraining):
        await runtime.database.read(list_conversations)
    again = await agents.registry.runtime(row.agent_id)
    assert again.row.generation == 2
    assert [found.title for found in await again.database.read(list_conversations)] == ["kept"]


async def test_other_agents_work_while_one_is_drained(agents: Opened) -> None:
    row = await agents.registry.create("Other")
    agents.gate.clear()
    await agents.registry.upgrade(row.agent_id)
    await agents.registry.runtime(SYSTEM_AGENT_ID)
    third = await agents.registry.create("Third")
    await agents.registry.rename(row.agent_id, "Renamed meanwhile")
    agents.gate.set()
    await agents.settled()
    assert [(found.name, found.generation) for found in await agents.registry.list()] == [("Assistant", 1), ("Renamed meanwhile", 2), ("Third", 1)]
    assert await phase(agents, third.agent_id) == "ready"


async def test_an_upgrade_that_fails_leaves_the_agent_usable(checkout: Checkout) -> None:
    def no_second(path: Path) -> None:
        if path.name == "2":
            raise ValueError("a fault nobody thought of")
        write_worker_env(path)

    async with opened(checkout, write_worker_env=no_second) as agents:
        row = await agents.registry.create("Other")
        await agents.registry.upgrade(row.agent_id)
        await agents.settled()
        assert await agents.registry.get(row.agent_id) == row
        await agents.registry.runtime(row.agent_id)


async def test_a_turn_that_slipped_through_the_fence_is_interrupted(agents: Opened) -> None:
    row = await agents.registry.create("Other")
    runtime = await agents.registry.runtime(row.agent_id)
    agents.gate.clear()
    await agents.registry.upgrade(row.agent_id)
    turn = await runtime.database.run(lambda conn: begun(conn, conversation(conn)))
    agents.gate.set()
    await agents.settled()
    database = (await agents.registry.runtime(row.agent_id)).database
    found = await database.read(lambda conn: get_turn_by_run(conn, turn.run_id))
    assert found is not None
    assert found.state == "interrupted"


async def test_a_deletion_returns_fenced_then_drains_and_removes_everything(checkout: Checkout) -> None:
    async with opened(checkout) as agents:
        row = await agents.registry.create("Other")
        await agents.registry.runtime(row.agent_id)
        agents.runs[row.agent_id] = 2
        agents.gate.clear()
        assert (await agents.registry.delete(row.agent_id)).state == "deleting"
        assert await phase(agents, row.agent_id) == "draining"
        for use in (agents.registry.runtime(row.agent_id), agents.registry.rename(row.agent_id, "x"), agents.registry.delete(row.agent_id)):
            with pytest.raises(AgentDraining):
                await use
        assert checkout.state_db(row.agent_id).exists()
        agents.gate.set()
        await agents.settled()
        with pytest.raises(NotFound):
            await agents.registry.get(row.agent_id)
        assert agents.drains == [row.agent_id]
    assert not checkout.agent_data(row.agent_id).exists()
    assert not checkout.agent_runtime(row.agent_id).exists()
    async with opened(checkout) as again:
        assert [found.name for found in await again.registry.list()] == ["Assistant"]


async def test_a_damaged_agent_says_so_others_work_and_it_can_be_deleted(agents: Opened) -> None:
    row = await agents.registry.create("Other")
    state = agents.checkout.state_db(row.agent_id)
    state.write_bytes(b"garbage" * 1000)
    for _ in range(2):
        with pytest.raises(AgentDamaged):
            await agents.registry.runtime(row.agent_id)
    assert agents.openings == [row.agent_id]
    assert await phase(agents, row.agent_id) == "damaged"
    assert state.read_bytes() == b"garbage" * 1000
    await agents.registry.runtime(SYSTEM_AGENT_ID)
    await agents.registry.delete(row.agent_id)
    await agents.settled()
    assert not state.exists()


async def test_a_missing_database_is_damage_and_is_not_made_anew(agents: Opened) -> None:
    row = await agents.registry.create("Other")
    agents.checkout.state_db(row.agent_id).unlink()
    with pytest.raises(AgentDamaged, match="missing"):
        await agents.registry.runtime(row.agent_id)
    assert not agents.checkout.state_db(row.agent_id).exists()
    assert await phase(agents, row.agent_id) == "damaged"


async def test_a_changed_environment_is_written_anew_before_it_is_used(agents: Opened) -> None:
    main = agents.checkout.worker_env(SYSTEM_AGENT_ID, 1) / "worker" / "__main__.py"
    original = main.read_bytes()
    main.write_bytes(b"import os")
    await agents.registry.runtime(SYSTEM_AGENT_ID)
    assert main.read_bytes() == original


async def test_an_environment_that_is_gone_shows_as_incomplete(agents: Opened) -> None:
    environment = agents.checkout.worker_env(SYSTEM_AGENT_ID, 1)
    environment.rename(environment.with_name("gone"))
    assert await phase(agents, SYSTEM_AGENT_ID) == "incomplete"
    await agents.registry.runtime(SYSTEM_AGENT_ID)
    assert await phase(agents, SYSTEM_AGENT_ID) == "ready"


async def test_a_client_that_hangs_up_does_not_cut_a_creation(checkout: Checkout) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        if checkout.agents_runtime / SYSTEM_AGENT_ID not in path.parents:
            entered.set()
            go_on.wait()
        write_worker_env(path)

    async with opened(checkout, write_worker_env=slow) as agents:
        request = asyncio.ensure_future(agents.registry.create("Other"))
        await asyncio.to_thread(entered.wait)
        assert [row.name for row in await agents.registry.list()] == ["Assistant"]
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        go_on.set()
        await agents.settled()
        assert [row.name for row in await agents.registry.list()] == ["Assistant", "Other"]


async def test_a_client_that_hangs_up_does_not_cut_an_opening(checkout: Checkout) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        entered.set()
        go_on.wait()

    async with opened(checkout, verify_worker_env=slow) as agents:
        request = asyncio.ensure_future(agents.registry.runtime(SYSTEM_AGENT_ID))
        await asyncio.to_thread(entered.wait)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        go_on.set()
        await agents.settled()
        assert agents.openings == [SYSTEM_AGENT_ID]
        await agents.registry.runtime(SYSTEM_AGENT_ID)
        assert agents.openings == [SYSTEM_AGENT_ID]


async def test_closing_closes_every_runtime_and_opens_none_again(agents: Opened) -> None:
    runtime = await agents.registry.runtime(SYSTEM_AGENT_ID)
    await agents.registry.close()
    await agents.registry.close()
    with pytest.raises(AgentDraining):
        await runtime.database.read(list_conversations)
    with pytest.raises(AgentDraining):
        await agents.registry.runtime(SYSTEM_AGENT_ID)
    assert not [*agents.checkout.agent_data(SYSTEM_AGENT_ID).glob("*-wal")]
