import asyncio
import os
from pathlib import Path

import pytest

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.protocol.events import PermissionRequested, ToolCallFinished
from agent_builder.protocol.limits import COMPILE_FILES
from agent_builder.tools import exec_run
from tests.support.capability import ToolRun, make_run, put

ASKED = "permission.requested"


async def test_a_builtin_runs_with_exactly_its_words(command_run: ToolRun) -> None:
    result = await command_run.call("exec/run", command="printf '%s|' 'a b' '$HOME' '`id`'")
    assert (result.outcome, result.text, result.receipt["exit_code"]) == ("ok", "exit code 0\na b|$HOME|`id`|", 0)
    assert command_run.left_over() == []


async def test_the_exit_code_is_true(command_run: ToolRun) -> None:
    result = await command_run.call("exec/run", command="false")
    assert (result.outcome, result.code, result.text, result.receipt["exit_code"]) == ("failed", "exit_code", "exit code 1, no output", 1)


async def test_the_operator_sees_the_words_and_what_confines_them(command_run: ToolRun) -> None:
    await command_run.call("exec/run", command="printf  \"a b\"   'c\u202e'")
    request = command_run.last(PermissionRequested)
    assert isinstance(request, PermissionRequested)
    assert request.preview.startswith("printf 'a b' 'c⟦U+202E⟧'\n")
    assert "no network" in request.preview


async def test_a_line_outside_of_the_grammar_is_refused_without_asking(command_run: ToolRun) -> None:
    result = await command_run.call("exec/run", command="ls | cat")
    assert (result.outcome, result.code) == ("refused", "command")
    assert ASKED not in command_run.types()


async def test_a_denied_command_does_not_run(command_run: ToolRun) -> None:
    command_run.decision = "deny"
    assert (await command_run.call("exec/run", command="true")).outcome == "denied"
    assert command_run.left_over() == []


async def test_it_runs_in_an_empty_directory_outside_of_workspace_and_run_root(command_run: ToolRun) -> None:
    result = await command_run.call("exec/run", command="pwd")
    place = Path(result.text.split("\n")[1])
    assert place.parent == command_run.run_root.parent
    assert place != command_run.run_root
    assert not place.exists()


async def test_too_much_output_is_stopped_and_said(command_run: ToolRun) -> None:
    result = await command_run.call("exec/run", command="printf %010000000d 1")
    assert (result.outcome, result.code, result.receipt["signal"]) == ("failed", "output", 9)
    assert result.text.startswith("stopped: it wrote more than 12288 bytes\n000")


async def test_a_signal_is_reported_as_one(command_run: ToolRun) -> None:
    """Far more memory than a command may have: Bash aborts or reports, and either is told as it was."""
    result = await command_run.call("exec/run", command="printf %0400000000d 1")
    assert result.outcome == "failed"
    assert ("signal" in result.receipt) != ("exit_code" in result.receipt)


async def test_syntax_errors_are_reported_with_path_and_line_and_nothing_is_kept(command_run: ToolRun) -> None:
    put(command_run.workspace, "ok.py", "x = 1\n")
    put(command_run.workspace, "pkg/bad.py", "x = 1\ndef f(:\n")
    put(command_run.workspace, "notes.txt", "def f(:\n")
    result = await command_run.call("exec/run", command="runtime-compile")
    assert (result.outcome, result.receipt["exit_code"]) == ("failed", 1)
    assert "pkg/bad.py:2: " in result.text
    assert "2 files, 1 with errors" in result.text
    assert sorted(os.listdir(command_run.workspace)) == ["notes.txt", "ok.py", "pkg"]
    assert os.listdir(command_run.workspace / "pkg") == ["bad.py"]
    assert command_run.left_over() == []


async def test_source_files_are_never_executed(command_run: ToolRun, tmp_path: Path) -> None:
    put(command_run.workspace, "a.py", f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert (await command_run.call("exec/run", command="runtime-compile")).outcome == "ok"
    assert not (tmp_path / "ran").exists()


async def test_links_are_left_out_and_named(command_run: ToolRun, tmp_path: Path) -> None:
    put(command_run.workspace, "a.py", "x = 1\n")
    (command_run.workspace / "b.py").symlink_to(put(tmp_path, "outside.py", "def f(:\n"))
    result = await command_run.call("exec/run", command="runtime-compile")
    assert (result.outcome, "1 files, 0 with errors" in result.text) == ("ok", True)
    assert "not checked: b.py (symlink)" in result.text


async def test_without_sources_or_with_too_many_nothing_is_asked(command_run: ToolRun) -> None:
    assert (await command_run.call("exec/run", command="runtime-compile")).code == "missing"
    for number in range(COMPILE_FILES):
        put(command_run.workspace, f"{number:03}.py", "")
    command_run.decision = "deny"
    assert (await command_run.call("exec/run", command="runtime-compile")).outcome == "denied"
    put(command_run.workspace, "one-more.py", "")
    again = await make_again(command_run).call("exec/run", command="runtime-compile")
    assert again.code == "too_many"


def make_again(run: ToolRun) -> ToolRun:
    return make_run(run.workspace.parent, run.worker_env)


async def test_a_program_that_changed_since_the_approval_is_not_run(command_run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    real = exec_run._program_identity
    looks = iter([0, 0, 1])
    monkeypatch.setattr(exec_run, "_program_identity", lambda line: [*real(line), next(looks)])
    result = await command_run.call("exec/run", command="true")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert command_run.types()[-3:] == ["permission.resolved", "tool.call.started", "tool.call.finished"]


async def test_a_command_that_cannot_be_confined_ends_the_run_and_is_recorded(tmp_path: Path) -> None:
    run = make_run(tmp_path, tmp_path / "no-such-environment")
    with pytest.raises(SandboxFailed):
        await run.call("exec/run", command="true")
    finished = run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert (finished.outcome, finished.code) == ("failed", "sandbox_failed")
    assert run.left_over() == []


async def test_a_cancelled_command_leaves_no_process_and_no_directory(command_run: ToolRun) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    calling = asyncio.create_task(command_run.call("exec/run", command="printf %010000000d 1"))
    while children.read_text() == before:
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert children.read_text() == before
    assert command_run.left_over() == []
    finished = command_run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert (finished.outcome, finished.code) == ("failed", "cancelled")
