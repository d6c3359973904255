import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_builder.agents.lifecycle import open_registry_database
from agent_builder.capsule.instructions import DEFAULT_TEXT
from agent_builder.capsule.worker_env import verify_worker_env, write_worker_env
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.errors import AgentDraining, NotFound, ProtectedAgent, StorageFull
from agent_builder.protocol.ids import SYSTEM_AGENT_ID, AgentId
from agent_builder.storage.conversations import list_conversations
from agent_builder.storage.registry import AgentRow, AgentState
from agent_builder.storage.turns import get_turn_by_run
from tests.support.agents import Opened, lifecycle_of, opened, tree
from tests.support.stored import NOW, admitted, conversation, open_state

ROOT = Path(__file__).parents[2]
WHOLE = {"manifest.json": 0o600, "state.sqlite": 0o600, "workspace": 0o700, "workspace/agent-builder.md": 0o600}
SYSTEM = AgentRow(SYSTEM_AGENT_ID, "Assistant", True, 1, AgentState.ACTIVE, None, NOW)


def killed(checkout: Checkout, change: str, step: int) -> bool:
    """Whether the change was killed before that step; it ended by itself otherwise."""
    program = ROOT / "tests" / "support" / "killed_agent_change.py"
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    code = subprocess.run([sys.executable, str(program), str(checkout.root), change, str(step)], env=env).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


async def converged(checkout: Checkout) -> list[AgentRow]:
    """The Agents after two starts; the second must find nothing to do."""
    database = await open_registry_database(checkout)
    try:
        agents = lifecycle_of(checkout, database)
        await agents.converge()
        rows, files = await agents.agents(), tree(checkout.root)
        again = await agents.converge()
        assert (again.notes, again.damaged, again.interrupted) == ([], {}, [])
        assert (await agents.agents(), tree(checkout.root)) == (rows, files)
    finally:
        await database.close()
    return rows


def require_whole(checkout: Checkout, rows: list[AgentRow]) -> None:
    """Exactly these Agents have files, and each has all of its own."""
    ids = sorted(row.agent_id for row in rows)
    assert sorted(path.name for path in checkout.agents_data.iterdir()) == ids
    assert sorted(path.name for path in checkout.agents_runtime.iterdir()) == ids
    for row in rows:
        assert row.state is AgentState.ACTIVE
        assert tree(checkout.agent_data(row.agent_id)) == WHOLE
        environments = checkout.worker_env(row.agent_id, row.generation)
        assert [path.name for path in environments.parent.iterdir()] == [str(row.generation)]
        verify_worker_env(environments)


async def prepared(checkout: Checkout) -> tuple[list[AgentRow], str]:
    """The system Agent and another one that has a Conversation."""
    async with opened(checkout) as agents:
        row = await agents.registry.create("Other")
        runtime = await agents.registry.runtime(row.agent_id)
        made = await runtime.database.run(lambda conn: conversation(conn, "kept"))
        return await agents.registry.list(), made


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[AgentRow], str]:
    """A checkout to copy for each crash."""
    root = tmp_path_factory.mktemp("before")
    rows, made = asyncio.run(prepared(Checkout(root)))
    return root, rows, made


async def test_a_first_start_killed_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    step, root = 1, tmp_path / "new"
    root.mkdir()
    while killed(checkout := Checkout(shutil.copytree(root, tmp_path / str(step))), "start", step):
        rows = await converged(checkout)
        assert rows == [SYSTEM]
        require_whole(checkout, rows)
        step += 1
    assert step > 8


async def test_a_creation_killed_at_any_step_is_whole_or_gone(tmp_path: Path, before: tuple[Path, list[AgentRow], str]) -> None:
    root, earlier, _ = before
    step = 1
    while killed(checkout := Checkout(shutil.copytree(root, tmp_path / str(step))), "create", step):
        rows = await converged(checkout)
        assert rows == earlier
        require_whole(checkout, rows)
        step += 1
    assert step > 8
    assert [row.name for row in await converged(checkout)] == ["Assistant", "Other", "New"]


async def test_an_upgrade_killed_at_any_step_is_finished_or_never_began(tmp_path: Path, before: tuple[Path, list[AgentRow], str]) -> None:
    root, earlier, made = before
    step, generations = 1, []
    while killed(checkout := Checkout(shutil.copytree(root, tmp_path / str(step))), "upgrade", step):
        rows = await converged(checkout)
        require_whole(checkout, rows)
        generations.append(rows[-1].generation)
        assert [row.agent_id for row in rows] == [row.agent_id for row in earlier]
        state = await open_state(checkout.agent_data(rows[-1].agent_id))
        assert [row.conversation_id for row in await state.read(list_conversations)] == [made]
        await state.close()
        step += 1
    assert step > 6
    assert generations == [1] + [2] * (len(generations) - 1)


async def test_a_deletion_killed_at_any_step_is_finished_or_never_began(tmp_path: Path, before: tuple[Path, list[AgentRow], str]) -> None:
    root, earlier, _ = before
    step, left = 1, []
    while killed(checkout := Checkout(shutil.copytree(root, tmp_path / str(step))), "delete", step):
        rows = await converged(checkout)
        require_whole(checkout, rows)
        left.append(len(rows))
        assert rows == earlier[: len(rows)]
        step += 1
    assert step > 6
    assert left == [2] + [1] * (len(left) - 1)


async def test_turns_left_running_are_interrupted_at_start(agents: Opened) -> None:
    checkout = agents.checkout
    runtime = await agents.registry.runtime(SYSTEM_AGENT_ID)
    turn = await runtime.database.run(lambda conn: admitted(conn, conversation(conn)))
    await agents.registry.close()
    async with opened(checkout) as again:
        assert again.converged.interrupted == [turn.run_id]
        database = (await again.registry.runtime(SYSTEM_AGENT_ID)).database
        found = await database.read(lambda conn: get_turn_by_run(conn, turn.run_id))
    assert found is not None
    assert found.state == "interrupted"


async def test_environments_removed_or_left_over_are_put_right_at_start(checkout: Checkout) -> None:
    async with opened(checkout):
        pass
    environments = checkout.agent_runtime(SYSTEM_AGENT_ID) / "worker-env"
    (environments / "1").rename(environments / "7")
    (environments / "2.building").mkdir()
    async with opened(checkout):
        pass
    require_whole(checkout, [SYSTEM])


async def test_the_whole_runtime_root_may_be_purged(checkout: Checkout) -> None:
    async with opened(checkout):
        pass
    shutil.rmtree(checkout.runtime)
    async with opened(checkout) as again:
        assert again.converged.damaged == {}
    require_whole(checkout, [SYSTEM])


async def test_missing_instructions_are_restored_and_existing_ones_kept(checkout: Checkout) -> None:
    file = checkout.workspace(SYSTEM_AGENT_ID) / "agent-builder.md"
    async with opened(checkout):
        assert file.read_text() == DEFAULT_TEXT
    file.unlink()
    async with opened(checkout):
        assert file.read_text() == DEFAULT_TEXT
    file.write_text("mine")
    async with opened(checkout) as agents:
        await agents.registry.runtime(SYSTEM_AGENT_ID)
        assert file.read_text() == "mine"


async def test_a_damaged_database_disables_that_agent_and_nothing_is_deleted(checkout: Checkout) -> None:
    async with opened(checkout) as agents:
        other = (await agents.registry.create("Other")).agent_id
    garbage = b"garbage" * 1000
    checkout.state_db(other).write_bytes(garbage)
    async with opened(checkout) as agents:
        assert [*agents.converged.damaged] == [other]
        phases = {row.name: agents.registry.view(row).phase for row in await agents.registry.list()}
        assert phases == {"Assistant": "ready", "Other": "damaged"}
        await agents.registry.runtime(SYSTEM_AGENT_ID)
    assert checkout.state_db(other).read_bytes() == garbage


async def test_runtime_files_of_no_agent_are_removed_and_data_of_no_agent_stays(checkout: Checkout) -> None:
    async with opened(checkout):
        pass
    stray = AgentId("00000000-0000-4000-8000-00000000000c")
    (checkout.runs(stray) / "run").mkdir(parents=True)
    checkout.workspace(stray).mkdir(parents=True)
    async with opened(checkout) as again:
        assert again.converged.notes == [f"Removed the runtime files of {stray}, which is no Agent."]
    assert not checkout.agent_runtime(stray).exists()
    assert checkout.workspace(stray).is_dir()


async def test_a_worker_and_run_root_of_a_dead_gateway_are_removed(checkout: Checkout) -> None:
    async with opened(checkout):
        pass
    root = checkout.runs(SYSTEM_AGENT_ID) / "run"
    root.mkdir()
    worker = subprocess.Popen(["sleep", "1000"], cwd=root)
    async with opened(checkout):
        assert worker.wait(10) == -signal.SIGKILL
        assert not root.exists()


async def test_an_upgrade_that_cannot_be_built_leaves_the_old_generation(checkout: Checkout) -> None:
    def no_space(path: Path) -> None:
        if path.name == "2":
            path.mkdir()
            raise OSError(28, "No space left on device")
        write_worker_env(path)

    async with opened(checkout) as agents:
        row = await agents.registry.create("Other")
    async with opened(checkout, write_worker_env=no_space) as agents:
        fenced = await agents.lifecycle.begin(row.agent_id, AgentState.UPGRADING)
        with pytest.raises(StorageFull):
            await agents.lifecycle.upgrade(fenced)
        assert await agents.lifecycle.agent(row.agent_id) == row
    rows = await converged(checkout)
    require_whole(checkout, rows)


async def test_an_interrupted_upgrade_that_cannot_be_finished_is_taken_back_at_start(checkout: Checkout) -> None:
    def no_second(path: Path) -> None:
        if path.name == "2":
            raise OSError(28, "No space left on device")
        write_worker_env(path)

    async with opened(checkout) as agents:
        row = await agents.registry.create("Other")
        await agents.lifecycle.begin(row.agent_id, AgentState.UPGRADING)
    async with opened(checkout, write_worker_env=no_second) as agents:
        assert await agents.lifecycle.agent(row.agent_id) == row
        assert [note.split(",")[0] for note in agents.converged.notes] == [f"Agent {row.agent_id}"]
        await agents.registry.runtime(row.agent_id)


async def test_a_creation_that_fails_leaves_nothing(checkout: Checkout) -> None:
    def only_the_first(path: Path) -> None:
        if checkout.agents_runtime / SYSTEM_AGENT_ID not in path.parents:
            raise OSError(28, "No space left on device")
        write_worker_env(path)

    async with opened(checkout, write_worker_env=only_the_first) as agents:
        with pytest.raises(StorageFull):
            await agents.registry.create("Other")
        assert [row.name for row in await agents.registry.list()] == ["Assistant"]
    rows = await converged(checkout)
    assert rows == [SYSTEM]
    require_whole(checkout, rows)


async def test_only_an_active_agent_that_is_not_the_systems_can_be_changed(agents: Opened) -> None:
    row = await agents.registry.create("Other")
    for state in (AgentState.UPGRADING, AgentState.DELETING):
        with pytest.raises(ProtectedAgent):
            await agents.lifecycle.begin(SYSTEM_AGENT_ID, state)
        with pytest.raises(NotFound):
            await agents.lifecycle.begin(AgentId("none"), state)
    await agents.lifecycle.begin(row.agent_id, AgentState.UPGRADING)
    with pytest.raises(AgentDraining):
        await agents.lifecycle.begin(row.agent_id, AgentState.DELETING)
