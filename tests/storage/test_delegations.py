from datetime import timedelta
from pathlib import Path
from sqlite3 import Connection, IntegrityError

import pytest

from agent_builder.protocol.errors import Internal, NotFound, RunLimit
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import (
    ACTIVE_TASKS,
    DELEGATE_ANSWER_BYTES,
    DELEGATE_MESSAGE_BYTES,
    SUBAGENTS_SHOWN,
    TASK_DAYS,
)
from agent_builder.storage.conversations import branch_conversation, delete_conversation, get_conversation
from agent_builder.storage.delegations import (
    ChildMark,
    Letter,
    NewDelegation,
    Place,
    begin_delegation,
    child_marks,
    children_of,
    create_child_conversation,
    delegations_of,
    finish_delegation,
    is_child,
    note_child_run,
)
from agent_builder.storage.tasks import TaskEnd, get_task, interrupt_unfinished
from tests.support.stored import AGENT, NOW, completed, conversation, open_state

LATER = NOW + timedelta(seconds=9)


def new(run_id: str, message: str = "help") -> NewDelegation:
    return NewDelegation(new_id(), run_id, Place(AGENT, new_id()), "Bob", message, NOW)


def asked(conn: Connection, conversation_id: str, message: str = "help") -> NewDelegation:
    delegation = new(completed(conn, conversation_id).run_id, message)
    begin_delegation(conn, delegation)
    return delegation


def end(delegation: NewDelegation, state: str = "completed", code: str | None = None) -> TaskEnd:
    return TaskEnd(delegation.task_id, state, code, None, LATER)  # type: ignore[arg-type]


@pytest.fixture
async def state(tmp_path: Path):
    database = await open_state(tmp_path)
    yield database
    await database.close()


async def test_a_delegation_is_a_task_with_a_mailbox_of_two(state) -> None:
    def whole(conn: Connection):
        here = conversation(conn)
        delegation = asked(conn, here)
        begun = delegations_of(conn, here)
        note_child_run(conn, delegation.task_id, "run-1")
        finish_delegation(conn, end(delegation), "answer")
        return delegation, begun, delegations_of(conn, here), get_task(conn, delegation.task_id)

    delegation, (begun,), (ended,), task = await state.run(whole)
    assert (begun.state, begun.child, begun.child_run_id, begun.letters) == ("running", delegation.child, None, (Letter("to_child", "help", NOW),))
    assert (ended.state, ended.child_run_id, ended.finished_at, ended.child_agent_name) == ("completed", "run-1", LATER, "Bob")
    assert ended.letters == (Letter("to_child", "help", NOW), Letter("to_parent", "answer", LATER))
    assert (task.kind, task.state, task.run_id) == ("delegate", "completed", delegation.run_id)


async def test_texts_keep_their_bounds(state) -> None:
    def longest(conn: Connection) -> None:
        delegation = asked(conn, conversation(conn), "x" * DELEGATE_MESSAGE_BYTES)
        finish_delegation(conn, end(delegation), "x" * DELEGATE_ANSWER_BYTES)

    await state.run(longest)
    with pytest.raises(Internal):
        await state.run(lambda conn: asked(conn, conversation(conn), "x" * (DELEGATE_MESSAGE_BYTES + 1)))
    with pytest.raises(Internal):
        await state.run(lambda conn: finish_delegation(conn, end(asked(conn, conversation(conn))), "x" * (DELEGATE_ANSWER_BYTES + 1)))


async def test_a_run_delegates_once_and_an_agent_has_so_many_tasks(state) -> None:
    def twice(conn: Connection) -> None:
        begin_delegation(conn, new(asked(conn, conversation(conn)).run_id))

    def many(conn: Connection) -> None:
        for _ in range(ACTIVE_TASKS + 1):
            asked(conn, conversation(conn))

    with pytest.raises(IntegrityError):
        await state.run(twice)
    with pytest.raises(RunLimit):
        await state.run(many)
    with pytest.raises(NotFound):
        await state.run(lambda conn: begin_delegation(conn, new("no-such-run")))


async def test_a_restart_interrupts_it(state) -> None:
    def whole(conn: Connection):
        here = conversation(conn)
        asked(conn, here)
        interrupt_unfinished(conn, LATER)
        return delegations_of(conn, here)

    (row,) = await state.run(whole)
    assert (row.state, row.finished_at, len(row.letters)) == ("interrupted", LATER, 1)


async def test_the_chain_outlives_its_tasks(state) -> None:
    def whole(conn: Connection):
        here = conversation(conn)
        finish_delegation(conn, end(asked(conn, here), "failed", "wall_clock"), None)
        asked(conn, here)
        interrupt_unfinished(conn, LATER)
        interrupt_unfinished(conn, LATER + timedelta(days=TASK_DAYS, seconds=1))
        return conn.execute("SELECT count(*) FROM tasks").fetchone()[0], delegations_of(conn, here)

    tasks, rows = await state.run(whole)
    assert (tasks, [(row.state, row.code) for row in rows]) == (0, [("failed", "wall_clock"), ("interrupted", None)])


async def test_the_newest_are_shown_and_all_children_are_known(state) -> None:
    def whole(conn: Connection):
        here, there = conversation(conn), conversation(conn)
        made = [asked(conn, here), asked(conn, there)]
        for delegation in made:
            finish_delegation(conn, end(delegation), None)
        for _ in range(SUBAGENTS_SHOWN):
            made.append(asked(conn, here))
            finish_delegation(conn, end(made[-1]), None)
        return made, delegations_of(conn, here), children_of(conn, here), children_of(conn)

    made, shown, here, everywhere = await state.run(whole)
    assert [row.task_id for row in shown] == [one.task_id for one in made[2:]]
    assert here == [one.child for one in made if one is not made[1]]
    assert everywhere == [one.child for one in made]


async def test_it_goes_with_the_conversation_of_its_run_and_a_branch_shows_it_as_long(state) -> None:
    def whole(conn: Connection):
        here = conversation(conn)
        asked(conn, here)
        branch_conversation(conn, here, "branch", "Branch", NOW)
        before = delegations_of(conn, "branch") == delegations_of(conn, here)
        delete_conversation(conn, here)
        left = [conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("delegations", "mailbox", "tasks")]
        return before, delegations_of(conn, "branch"), left

    assert await state.run(whole) == (True, [], [0, 0, 0])


async def test_a_child_conversation_says_whose_it_is_and_a_branch_of_it_is_none(state) -> None:
    def whole(conn: Connection):
        parent = Place(AGENT, new_id())
        made = create_child_conversation(conn, "child", "Help", NOW, parent, new_id())
        completed(conn, "child")
        branch_conversation(conn, "child", "branch", "Branch", NOW)
        marks = child_marks(conn), is_child(conn, "child"), is_child(conn, "branch"), is_child(conn, "none")
        same = get_conversation(conn, "child").asked_by
        delete_conversation(conn, "child")
        return made.asked_by, same, marks, parent, child_marks(conn)

    asked_by, same, marks, parent, left = await state.run(whole)
    assert asked_by == same == AGENT
    assert marks == ([ChildMark("child", parent)], True, False, False)
    assert left == []
