import asyncio
import os
from pathlib import Path

import pytest

from agent_builder.capsule.command_runner import CommandBounds
from agent_builder.protocol.errors import (
    AgentDraining,
    ConversationBusy,
    NotFound,
    RunLimit,
    SandboxFailed,
    StorageFull,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import (
    ACTIVE_TASKS,
    COMMAND_WALL_S,
    TASK_NOTIFICATION_BYTES,
    TASK_RESULT_BYTES,
    TERMINAL_RETRY_S,
)
from agent_builder.storage.conversations import delete_conversation
from agent_builder.storage.tasks import TaskRow, interrupt_unfinished
from agent_builder.tasks import background, compile_check
from tests.support.capability import children
from tests.tasks.conftest import Bench


async def test_a_syntax_error_is_told_with_path_and_line_and_nothing_is_left(bench: Bench) -> None:
    bench.file("good.py", "x = 1\n")
    bench.file("pkg/bad.py", "x = 1\ndef f(:\n")
    accepted = await bench.submit()
    assert (accepted.state, accepted.run_id, accepted.conversation_id) == ("queued", bench.turn.run_id, bench.turn.conversation_id)
    task = await bench.ended(accepted)
    assert (task.state, task.code) == ("completed", "exit_code")
    assert task.result is not None
    assert task.result.startswith("exit code 1\npkg/bad.py:2: ")
    assert "2 files, 1 with errors" in task.result
    assert task.started_at is not None
    assert task.finished_at is not None
    assert [(one.kind, one.text) for one in await bench.tasks.notifications(task.task_id)] == [("completed", task.result)]
    assert (bench.left(), children()) == ([], [])
    assert sorted(os.listdir(bench.workspace / "pkg")) == ["bad.py"]


async def test_sources_without_fault_give_a_plain_end(bench: Bench) -> None:
    bench.file("good.py", "x = 1\n")
    task = await bench.ended(await bench.submit())
    assert (task.state, task.code, task.result) == ("completed", None, "exit code 0\n1 files, 0 with errors\n")


async def test_a_workspace_without_sources_is_a_failure_that_says_so(bench: Bench) -> None:
    task = await bench.ended(await bench.submit())
    assert (task.state, task.code) == ("failed", "missing")
    assert task.result == "nothing was run: the workspace has no *.py file that can be checked"
    assert bench.left() == []


async def test_it_runs_in_places_of_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = compile_check.run_confined, []

    async def looked(profile, worker_env, directory, arguments, bounds, clock, environment):
        seen.append((directory, {path.name: path.stat().st_mode & 0o777 for path in directory.parent.iterdir()}, environment))
        return await real(profile, worker_env, directory, arguments, bounds, clock, environment)

    monkeypatch.setattr(compile_check, "run_confined", looked)
    bench.file("a.py", "x = 1\n")
    task = await bench.ended(await bench.submit())
    root = bench.roots / task.task_id
    directory, found, environment = seen[0]
    assert directory == root / "work"
    assert found == dict.fromkeys(("home", "tmp", "xdg", "work", "output"), 0o700)
    assert {name: Path(place).relative_to(root).name for name, place in environment.items()} == {
        "HOME": "home", "TMPDIR": "tmp", "XDG_CACHE_HOME": "xdg", "XDG_CONFIG_HOME": "xdg", "XDG_DATA_HOME": "xdg", "XDG_STATE_HOME": "xdg",
    }


async def test_it_waits_for_the_turn_that_all_commands_share(bench: Bench) -> None:
    bench.file("a.py", "x = 1\n")
    async with bench.parts.command_turn:
        task = await bench.submit()
        for _ in range(20):
            await bench.tasks.get(task.task_id)
        assert ((await bench.tasks.get(task.task_id)).state, bench.left()) == ("queued", [])
    assert (await bench.ended(task)).state == "completed"


async def test_a_fifth_is_refused_until_one_ends(bench: Bench) -> None:
    bench.file("a.py", "x = 1\n")
    async with bench.parts.command_turn:
        tasks = [await bench.submit() for _ in range(ACTIVE_TASKS)]
        with pytest.raises(RunLimit):
            await bench.submit()
        assert await bench.tasks.cancel(tasks[0].task_id) == "accepted"
        await bench.ended(tasks[0])
        tasks.append(await bench.submit())
    assert [(await bench.ended(task)).state for task in tasks] == ["cancelled", *["completed"] * ACTIVE_TASKS]


async def test_one_that_waits_is_cancelled_without_ever_having_run(bench: Bench) -> None:
    bench.file("a.py", "x = 1\n")
    async with bench.parts.command_turn:
        task = await bench.submit()
        assert await bench.tasks.cancel(task.task_id) == "accepted"
        ended = await bench.ended(task)
    assert (ended.state, ended.started_at, ended.result) == ("cancelled", None, None)
    assert await bench.tasks.cancel(task.task_id) == "stale"
    assert [one.kind for one in await bench.tasks.notifications(task.task_id)] == ["cancelled"]


async def test_one_that_runs_is_gone_with_its_process_and_root_when_it_is_cancelled(bench: Bench) -> None:
    bench.slow_sources()
    task = await bench.submit()
    await bench.until_running(task)
    assert await bench.tasks.cancel(task.task_id) == "accepted"
    active = bench.parts.active.get(task.task_id)
    assert active is not None
    await asyncio.wait_for(active.left.wait(), 20)
    assert (children(), bench.left(), bench.parts.command_turn.locked()) == ([], [], False)
    ended = await bench.ended(task)
    assert (ended.state, ended.started_at is not None) == ("cancelled", True)


async def test_however_often_it_is_cancelled_it_ends_in_order(bench: Bench) -> None:
    bench.slow_sources()
    task = await bench.submit()
    await bench.until_running(task)
    while bench.parts.active.get(task.task_id) is not None:
        await bench.tasks.cancel(task.task_id)
        await asyncio.sleep(0)
    assert ((await bench.tasks.get(task.task_id)).state, bench.left(), children()) == ("cancelled", [], [])


async def test_a_client_that_hangs_up_has_started_a_task_all_the_same(bench: Bench) -> None:
    bench.file("a.py", "x = 1\n")
    asking = asyncio.create_task(bench.submit())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    (task,) = await bench.tasks.all()
    assert (await bench.ended(task)).state == "completed"


async def test_the_wall_clock_ends_it_and_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CommandBounds(COMMAND_WALL_S, TASK_RESULT_BYTES) == compile_check._BOUNDS
    monkeypatch.setattr(compile_check, "_BOUNDS", CommandBounds(0, TASK_RESULT_BYTES))
    bench.slow_sources()
    task = await bench.ended(await bench.submit())
    assert (task.state, task.code, task.result) == ("failed", "wall_clock", "stopped: it ran longer than 12 seconds, no output")
    assert (bench.left(), children()) == ([], [])


async def test_output_past_its_bound_is_cut_and_told(bench: Bench) -> None:
    for number in range(200):
        bench.file(f"{number:03}-{'n' * 120}.py", "def f(:\n")
    task = await bench.ended(await bench.submit())
    assert (task.state, task.code) == ("failed", "output")
    assert task.result is not None
    assert "it wrote more than 16384 bytes\n000-nnn" in task.result
    assert TASK_RESULT_BYTES - 8 <= len(task.result.encode()) <= TASK_RESULT_BYTES
    (told,) = await bench.tasks.notifications(task.task_id)
    assert len(told.text.encode()) <= TASK_NOTIFICATION_BYTES


@pytest.mark.parametrize(("fault", "code", "result"), [
    (SandboxFailed("The command could not be confined."), "sandbox_failed", "The command could not be confined."),
    (OSError(28, "No space left on device"), "io_error", "the Task's directory cannot be used (No space left on device)"),
    (ZeroDivisionError(), "internal", "Something went wrong inside Agent Builder. (incident "),
])
async def test_a_fault_is_the_end_of_the_task_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: Exception, code: str, result: str
) -> None:
    async def failing(*_: object, **__: object) -> None:
        raise fault

    bench.file("a.py", "x = 1\n")
    with monkeypatch.context() as patched:
        patched.setattr(compile_check, "run_confined", failing)
        task = await bench.ended(await bench.submit())
    assert (task.state, task.code) == ("failed", code)
    assert task.result is not None
    assert task.result.startswith(result)
    assert bench.left() == []
    assert (await bench.ended(await bench.submit())).state == "completed"


async def test_its_end_is_stored_when_the_disk_has_room_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real, fulls = background.finish_task, [None]

    def finish(conn, end) -> None:
        if fulls:
            fulls.pop()
            raise StorageFull
        real(conn, end)

    monkeypatch.setattr(background, "finish_task", finish)
    bench.file("a.py", "x = 1\n")
    task = await bench.submit()
    active = bench.parts.active.get(task.task_id)
    assert active is not None
    await active.left.wait()
    while fulls:
        await asyncio.sleep(0)
    assert await bench.tasks.cancel(task.task_id) == "stale"
    while (await bench.tasks.get(task.task_id)).state == "running":
        bench.parts.clock.advance(TERMINAL_RETRY_S)
    assert (await bench.ended(task)).state == "completed"


async def test_closing_does_not_wait_for_room_on_the_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageFull

    monkeypatch.setattr(background, "finish_task", full)
    async with bench.parts.command_turn:
        task = await bench.submit()
        await bench.tasks.close()
        assert (await bench.tasks.get(task.task_id)).state == "queued"


async def test_an_end_that_cannot_be_stored_at_all_fells_nothing_else(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    bench.file("a.py", "x = 1\n")
    with monkeypatch.context() as patched:
        patched.setattr(background, "finish_task", broken)
        await bench.ended(task := await bench.submit())
    await asyncio.gather(*bench.running)
    assert (await bench.tasks.get(task.task_id)).state == "running"
    await bench.database.run(lambda conn: interrupt_unfinished(conn, bench.parts.clock.now()))
    assert (await bench.ended(await bench.submit())).state == "completed"


async def test_closing_ends_all_and_lets_none_begin(bench: Bench) -> None:
    bench.slow_sources()
    tasks = [await bench.submit() for _ in range(ACTIVE_TASKS)]
    await bench.until_running(tasks[0])
    await asyncio.gather(bench.tasks.close(), bench.tasks.close())
    assert [(await bench.tasks.get(task.task_id)).state for task in tasks] == ["cancelled"] * ACTIVE_TASKS
    assert (bench.left(), children()) == ([], [])
    with pytest.raises(AgentDraining):
        await bench.submit()


async def test_one_that_is_just_being_accepted_is_ended_by_closing_too(bench: Bench) -> None:
    asking = asyncio.create_task(bench.submit())
    while not bench.tasks._entry.locked():
        await asyncio.sleep(0)
    await bench.tasks.close()
    (ended,) = await bench.tasks.all()
    assert (await asking).task_id == ended.task_id
    assert ended.state == "cancelled"


async def test_the_tasks_of_a_conversation_leave_before_it_is_deleted(bench: Bench) -> None:
    bench.slow_sources()
    task = await bench.submit()
    await bench.until_running(task)
    async with bench.tasks.without(bench.turn.conversation_id):
        assert (bench.left(), children()) == ([], [])
        with pytest.raises(ConversationBusy):
            await bench.submit()
        await bench.database.run(lambda conn: delete_conversation(conn, bench.turn.conversation_id))
    await asyncio.gather(*bench.running)
    assert await bench.tasks.all() == []
    with pytest.raises(NotFound):
        await bench.submit()


async def test_a_deletion_that_fails_leaves_the_conversation_usable(bench: Bench) -> None:
    bench.file("a.py", "x = 1\n")
    with pytest.raises(StorageFull):
        async with bench.tasks.without(bench.turn.conversation_id):
            raise StorageFull
    assert (await bench.ended(await bench.submit())).state == "completed"


async def test_unknown_ids_are_not_found(bench: Bench) -> None:
    for ask in (bench.tasks.submit, bench.tasks.get, bench.tasks.cancel, bench.tasks.notifications):
        with pytest.raises(NotFound):
            await ask(new_id())


async def test_what_is_listed_is_the_newest_first(bench: Bench) -> None:
    async with bench.parts.command_turn:
        tasks: list[TaskRow] = [await bench.submit() for _ in range(3)]
        assert [one.task_id for one in await bench.tasks.all()] == [one.task_id for one in reversed(tasks)]
