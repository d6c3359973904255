"""Who may be asked, and when: the rules that need no Run. What a delegation does is tested in tests/flows."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_builder.context.inputs import NOTHING_AROUND
from agent_builder.protocol.delegation import ChildEnd, DelegationRefused, OtherAgent
from agent_builder.protocol.errors import StorageFull
from agent_builder.protocol.events import RunIdentity
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import ACTIVE_RUNS, DELEGATIONS, TERMINAL_RETRY_S
from agent_builder.storage.database import Database
from agent_builder.storage.delegations import NewDelegation, Place, begin_delegation, create_child_conversation
from agent_builder.tasks.active import ActiveTasks
from agent_builder.tasks.subagents import Delegations, Subagents
from agent_builder.tools.delegate import DELEGATE
from tests.support.clock import MovableClock
from tests.support.stored import AGENT, NOW, completed, conversation, open_state

ME, BOB = OtherAgent(AGENT, "Me", 1), OtherAgent(new_id(), "Bob", 3)


def identity(**changes: str) -> RunIdentity:
    return RunIdentity(**{"agent_id": AGENT, "conversation_id": new_id(), "turn_id": new_id(), "run_id": new_id(), **changes})


@pytest.fixture
async def subagents(tmp_path: Path) -> Any:
    database = await open_state(tmp_path)
    active: Any = SimpleNamespace(count=0, get=lambda run_id: run_id)
    shared = Delegations(agents=lambda: [ME, BOB], engine_for=None, active=active, clock=MovableClock(), start_task=asyncio.create_task)  # type: ignore[arg-type]
    yield Subagents(AGENT, database, ActiveTasks(), shared)
    await database.close()


def refusal(subagents: Subagents, asking: RunIdentity) -> str:
    with pytest.raises(DelegationRefused) as refused:
        subagents.require_room(asking)
    return refused.value.code


def test_only_another_active_agent_can_be_asked(subagents: Subagents) -> None:
    assert subagents.target(BOB.agent_id) == BOB
    for agent_id, code in ((AGENT, "own_agent"), (new_id(), "no_such_agent")):
        with pytest.raises(DelegationRefused, match=f"Agent {BOB.agent_id}: Bob") as refused:
            subagents.target(agent_id)
        assert refused.value.code == code


def test_so_many_delegations_go_on_at_a_time(subagents: Subagents) -> None:
    with ExitStack() as going:
        for number in range(DELEGATIONS):
            subagents.require_room(identity())
            going.enter_context(subagents._place(f"task-{number}", identity(), Place(BOB.agent_id, new_id())))
        assert refusal(subagents, identity()) == "delegation_limit"
    subagents.require_room(identity())


def test_a_run_that_has_asked_does_not_ask_again_also_when_its_delegation_is_over(subagents: Subagents) -> None:
    asking = identity()
    with subagents._place("task", asking, Place(BOB.agent_id, new_id())):
        assert refusal(subagents, asking) == "already_asked"
    assert refusal(subagents, asking) == "already_asked"
    subagents.require_room(identity())


def test_a_child_asks_nobody(subagents: Subagents) -> None:
    child = Place(BOB.agent_id, new_id())
    with subagents._place("task", identity(), child):
        assert refusal(subagents, identity(conversation_id=child.conversation_id)) == "depth"


def test_the_last_slot_is_enough(subagents: Subagents) -> None:
    active: Any = subagents._shared.active
    active.count = ACTIVE_RUNS - 1
    subagents.require_room(identity())
    active.count = ACTIVE_RUNS
    assert refusal(subagents, identity()) == "run_limit"


async def test_the_tool_is_there_with_another_agent_and_not_in_a_child_conversation(subagents: Subagents) -> None:
    def both(conn: Any) -> str:
        create_child_conversation(conn, "child", "x", NOW, Place(BOB.agent_id, "parent"), "task")
        return conversation(conn)

    plain = await subagents._database.run(both)
    assert await subagents.around("child") == NOTHING_AROUND
    for one in (plain, None):
        around = await subagents.around(one)
        assert (around.tools, around.lines) == (frozenset({DELEGATE}), (f"Agent {BOB.agent_id}: Bob",))
    subagents._shared.agents = lambda: [ME]
    assert await subagents.around(plain) == NOTHING_AROUND


async def test_an_end_that_finds_no_space_is_stored_later_and_holds_nobody_up(subagents: Subagents, monkeypatch: pytest.MonkeyPatch) -> None:
    database, real, full = subagents._database, Database.run, [True, True, False]

    def begin(conn: Any) -> tuple[str, str]:
        here = conversation(conn)
        new = NewDelegation("task", completed(conn, here).run_id, Place(BOB.agent_id, "child"), "Bob", "help", NOW)
        begin_delegation(conn, new)
        return here, new.task_id

    async def run(database: Database, fn: Any, *, terminal: bool = False) -> Any:
        if full.pop(0):
            raise StorageFull
        stored.set()
        return await real(database, fn, terminal=terminal)

    (here, task_id), stored = await database.run(begin), asyncio.Event()
    monkeypatch.setattr(Database, "run", run)
    await subagents._finish(ChildEnd("completed", task_id, "child", answer="yes"))
    while not stored.is_set():
        subagents._shared.clock.advance(TERMINAL_RETRY_S)  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    monkeypatch.undo()
    while (await subagents.chain(here))[0].state == "running":
        await asyncio.sleep(0)
    (row,) = await subagents.chain(here)
    assert (row.state, [letter.text for letter in row.letters]) == ("completed", ["help", "yes"])
