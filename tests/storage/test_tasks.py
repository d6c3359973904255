from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from sqlite3 import Connection

import pytest

from agent_builder.protocol.errors import NotFound, RunLimit
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import (
    ACTIVE_TASKS,
    TASK_DAYS,
    TASK_NOTIFICATION_BYTES,
    TASK_NOTIFICATIONS,
    TASK_RESULT_BYTES,
    TASKS_KEPT,
)
from agent_builder.storage.conversations import branch_conversation, delete_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.tasks import (
    IllegalTaskChange,
    NewTask,
    TaskEnd,
    TaskNotification,
    TaskRow,
    finish_task,
    get_task,
    insert_task,
    interrupt_unfinished,
    list_tasks,
    notifications_of,
    notify,
    start_task,
)
from tests.support.stored import NOW, completed, conversation

LATER = NOW + timedelta(seconds=3)


def inserted(conn: Connection, run_id: str, minute: int = 0) -> TaskRow:
    return insert_task(conn, NewTask(new_id(), run_id, "runtime-compile", NOW + timedelta(minutes=minute)))


def finished(conn: Connection, run_id: str, minute: int = 0) -> TaskRow:
    task = start_task(conn, inserted(conn, run_id, minute).task_id, NOW)
    return finish_task(conn, TaskEnd(task.task_id, "completed", None, "fine", NOW + timedelta(minutes=minute)))


def run_of(conn: Connection) -> str:
    return completed(conn, conversation(conn)).run_id


def ids(tasks: list[TaskRow]) -> list[str]:
    return [task.task_id for task in tasks]


async def test_the_list_leaves_results_out(state: Database) -> None:
    def story(conn: Connection) -> None:
        task = finished(conn, run_of(conn))
        assert (task.result, list_tasks(conn)) == ("fine", [replace(task, result=None)])

    await state.run(story)


async def test_a_task_is_queued_started_and_finished(state: Database) -> None:
    def story(conn: Connection) -> list[TaskRow]:
        turn = completed(conn, conversation(conn))
        queued = inserted(conn, turn.run_id)
        started = start_task(conn, queued.task_id, NOW)
        ended = finish_task(conn, TaskEnd(queued.task_id, "completed", "exit_code", "a.py:2: bad", LATER))
        assert ended == get_task(conn, queued.task_id)
        assert queued == TaskRow(
            queued.task_id, turn.run_id, turn.conversation_id, "runtime-compile", "queued", NOW, None, None, None, None
        )
        return [replace(queued, state="running", started_at=NOW), started,
                replace(started, state="completed", finished_at=LATER, code="exit_code", result="a.py:2: bad"), ended]

    wanted, started, expected, ended = await state.run(story)
    assert (started, ended) == (wanted, expected)


@pytest.mark.parametrize("state_then", ["completed", "failed", "cancelled", "interrupted"])
async def test_nothing_follows_a_terminal_state(state: Database, state_then) -> None:
    def story(conn: Connection) -> None:
        task = start_task(conn, inserted(conn, run_of(conn)).task_id, NOW)
        end = TaskEnd(task.task_id, state_then, None, None, LATER)
        finish_task(conn, end)
        for change in (lambda: start_task(conn, task.task_id, NOW), lambda: finish_task(conn, end)):
            with pytest.raises(IllegalTaskChange):
                change()

    await state.run(story)


async def test_what_was_never_started_is_not_completed(state: Database) -> None:
    def story(conn: Connection) -> None:
        task = inserted(conn, run_of(conn))
        with pytest.raises(IllegalTaskChange):
            finish_task(conn, TaskEnd(task.task_id, "completed", None, "fine", LATER))
        finish_task(conn, TaskEnd(task.task_id, "cancelled", None, None, LATER))

    await state.run(story)


async def test_four_may_be_active_and_a_fifth_waits_for_an_end(state: Database) -> None:
    def story(conn: Connection) -> None:
        run_id = run_of(conn)
        tasks = [inserted(conn, run_id) for _ in range(ACTIVE_TASKS)]
        start_task(conn, tasks[0].task_id, NOW)
        with pytest.raises(RunLimit):
            inserted(conn, run_id)
        finish_task(conn, TaskEnd(tasks[0].task_id, "completed", None, "fine", LATER))
        inserted(conn, run_id)

    await state.run(story)


async def test_an_unknown_run_and_one_without_its_own_conversation_have_no_task(state: Database) -> None:
    def story(conn: Connection) -> None:
        turn = completed(conn, conversation(conn))
        branch_conversation(conn, turn.conversation_id, new_id(), "Branch", NOW)
        delete_conversation(conn, turn.conversation_id)
        for run_id in (new_id(), turn.run_id):
            with pytest.raises(NotFound):
                inserted(conn, run_id)
        for look in (lambda: get_task(conn, new_id()), lambda: notifications_of(conn, new_id()), lambda: start_task(conn, new_id(), NOW)):
            with pytest.raises(NotFound):
                look()

    await state.run(story)


async def test_128_are_kept_and_the_oldest_terminal_one_makes_room(state: Database) -> None:
    def story(conn: Connection) -> None:
        run_id = run_of(conn)
        active = inserted(conn, run_id)
        ended = [finished(conn, run_id, number) for number in range(1, TASKS_KEPT)]
        assert ids(list_tasks(conn)) == ids([*reversed(ended), active])
        one_more = inserted(conn, run_id, TASKS_KEPT)
        assert ids(list_tasks(conn)) == ids([one_more, *reversed(ended[1:]), active])

    await state.run(story)


async def test_a_terminal_task_is_kept_for_seven_days(state: Database) -> None:
    def story(conn: Connection) -> list[int]:
        run_id = run_of(conn)
        old = finished(conn, run_id)
        last = old.finished_at + timedelta(days=TASK_DAYS)
        counts = []
        for now in (last, last + timedelta(microseconds=1)):
            waiting = insert_task(conn, NewTask(new_id(), run_id, "delegate", now))
            counts.append(ids(list_tasks(conn)).count(old.task_id))
            finish_task(conn, TaskEnd(waiting.task_id, "cancelled", None, None, now))
        return counts

    assert await state.run(story) == [1, 0]


async def test_at_a_start_the_unfinished_are_interrupted_and_the_old_go(state: Database) -> None:
    def story(conn: Connection) -> None:
        run_id = run_of(conn)
        old = finished(conn, run_id)
        queued, running = inserted(conn, run_id), start_task(conn, inserted(conn, run_id).task_id, NOW)
        now = NOW + timedelta(days=TASK_DAYS, seconds=1)
        assert interrupt_unfinished(conn, now) == [queued.task_id, running.task_id]
        assert interrupt_unfinished(conn, now) == []
        found = list_tasks(conn)
        assert old.task_id not in ids(found)
        assert found == [replace(one, state="interrupted", finished_at=now) for one in (running, queued)]

    await state.run(story)


async def test_four_notifications_are_kept_in_order_and_a_fifth_is_refused(state: Database) -> None:
    def story(conn: Connection) -> None:
        task = inserted(conn, run_of(conn))
        for number in range(TASK_NOTIFICATIONS):
            notify(conn, task.task_id, "finished", f"fact {number}", NOW)
        with pytest.raises(IllegalTaskChange):
            notify(conn, task.task_id, "finished", "one more", NOW)
        assert notifications_of(conn, task.task_id) == [
            TaskNotification(number + 1, NOW, "finished", f"fact {number}") for number in range(TASK_NOTIFICATIONS)
        ]

    await state.run(story)


def told(conn: Connection, task: TaskRow, text: str) -> None:
    notify(conn, task.task_id, "finished", text, NOW)


def ended(conn: Connection, task: TaskRow, text: str) -> None:
    finish_task(conn, TaskEnd(task.task_id, "failed", None, text, NOW))


@pytest.mark.parametrize(("write", "bound"), [(told, TASK_NOTIFICATION_BYTES), (ended, TASK_RESULT_BYTES)])
async def test_texts_have_a_bound_in_bytes(state: Database, write: Callable[[Connection, TaskRow, str], None], bound: int) -> None:
    def story(conn: Connection) -> None:
        task = inserted(conn, run_of(conn))
        with pytest.raises(IllegalTaskChange):
            write(conn, task, "é" * (bound // 2) + "x")
        write(conn, task, "é" * (bound // 2))

    await state.run(story)


async def test_tasks_and_what_was_said_about_them_go_with_their_conversation(state: Database) -> None:
    def story(conn: Connection) -> None:
        gone, stays = completed(conn, conversation(conn)), completed(conn, conversation(conn))
        for turn in (gone, stays):
            notify(conn, inserted(conn, turn.run_id).task_id, "finished", "done", NOW)
        delete_conversation(conn, gone.conversation_id)
        assert [task.run_id for task in list_tasks(conn)] == [stays.run_id]
        assert conn.execute("SELECT count(*) FROM task_notifications").fetchone() == (1,)

    await state.run(story)
