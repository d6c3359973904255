import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_builder.capsule.command_runner import CommandEnd
from agent_builder.protocol.errors import PermissionStale, SandboxFailed
from agent_builder.protocol.events import PermissionRequested, ToolCallFinished
from agent_builder.protocol.limits import COMMAND_OUTPUT_BYTES, COMPILE_BYTES, COMPILE_FILES, FILE_BYTES, SEARCH_S
from agent_builder.tools import exec_run, python_sources
from agent_builder.tools.broker import CapabilityBroker
from agent_builder.tools.command_end import ended_result
from tests.support.capability import ToolRun, begun, children, make_run, most_at_once, put

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
    assert "Read the file again" not in result.text
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
    before = children()
    calling = await begun(command_run.call("exec/run", command="printf %010000000d 1"))
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert children() == before
    assert command_run.left_over() == []
    finished = command_run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert (finished.outcome, finished.code) == ("failed", "cancelled")


async def test_an_operator_may_take_longer_than_a_search(command_run: ToolRun) -> None:
    put(command_run.workspace, "a.py", "x = 1\n")
    command_run.operator = lambda _: command_run.clock.advance(5 * SEARCH_S)
    result = await command_run.call("exec/run", command="runtime-compile")
    assert (result.outcome, result.receipt.get("exit_code")) == ("ok", 0), result.text


@pytest.mark.parametrize(("size", "code"), [(COMPILE_BYTES // 4, None), (COMPILE_BYTES // 4 + 1, "too_many")])
async def test_four_mebibytes_are_compiled_and_one_byte_more_refused(command_run: ToolRun, size: int, code: str | None) -> None:
    for number in range(3):
        put(command_run.workspace, f"{number}.py", "#" * (COMPILE_BYTES // 4))
    put(command_run.workspace, "4.py", b"#" * min(size, FILE_BYTES))
    if size > FILE_BYTES:
        put(command_run.workspace, "5.py", b"#")
    assert (await command_run.call("exec/run", command="runtime-compile")).code == code


async def test_files_that_grow_past_the_bound_while_the_card_is_open_make_the_approval_stale(command_run: ToolRun) -> None:
    for number in range(5):
        put(command_run.workspace, f"{number}.py", "#")

    def grow(_: object) -> None:
        for number in range(5):
            put(command_run.workspace, f"{number}.py", "#" * FILE_BYTES)

    command_run.operator = grow
    result = await command_run.call("exec/run", command="runtime-compile")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert "at most 256 files and 4194304 bytes can be checked" in result.text
    assert command_run.left_over() == []


def add(run: ToolRun) -> None:
    put(run.workspace, "b.py", "x = 1\n")


def take_away(run: ToolRun) -> None:
    (run.workspace / "a.py").unlink()


def link(run: ToolRun) -> None:
    (run.workspace / "b.py").symlink_to("a.py")


@pytest.mark.parametrize("change", [add, take_away, link])
async def test_the_approval_binds_the_list_of_files(command_run: ToolRun, change: Callable[[ToolRun], None]) -> None:
    put(command_run.workspace, "a.py", "x = 1\n")
    put(command_run.workspace, "c.py", "x = 1\n")
    command_run.operator = lambda _: change(command_run)
    result = await command_run.call("exec/run", command="runtime-compile")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert result.text == "nothing was changed: the list of *.py files is another one now. Call exec_run again if it is still wanted."
    assert isinstance(command_run.faults[0], PermissionStale)


async def test_the_list_is_looked_at_once_more_while_acting(command_run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    put(command_run.workspace, "a.py", "x = 1\n")
    real = exec_run._copy_sources

    def late(*arguments: object) -> object:
        add(command_run)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(exec_run, "_copy_sources", late)
    assert (await command_run.call("exec/run", command="runtime-compile")).code == "permission_stale"
    assert command_run.left_over() == []


async def test_a_file_may_be_saved_while_the_card_is_open(command_run: ToolRun) -> None:
    put(command_run.workspace, "a.py", "def f(:\n")
    command_run.operator = lambda _: put(command_run.workspace, "a.py", "def f(): ...\n")
    assert (await command_run.call("exec/run", command="runtime-compile")).outcome == "ok"


async def test_the_operator_sees_which_files_are_left_out(command_run: ToolRun) -> None:
    put(command_run.workspace, "a.py", "x = 1\n")
    put(command_run.workspace, "open.py", "x = 1\n", 0o666)
    await command_run.call("exec/run", command="runtime-compile")
    request = command_run.last(PermissionRequested)
    assert isinstance(request, PermissionRequested)
    assert request.preview.endswith("\n  a.py\nnot checked:\n  open.py (mode)\n")


async def test_a_list_that_cannot_be_shown_whole_is_refused_without_asking(command_run: ToolRun) -> None:
    deep = "/".join(["d" * 200] * 4)
    for number in range(90):
        put(command_run.workspace, f"{deep}/{number}.py", "")
    result = await command_run.call("exec/run", command="runtime-compile")
    assert (result.outcome, result.code) == ("refused", "too_many")
    assert "too long to be shown" in result.text
    assert ASKED not in command_run.types()


@pytest.mark.parametrize("step", ["mkdir", "_copy_sources"])
async def test_a_full_disk_before_a_command_runs_is_a_failure_that_says_so(
    command_run: ToolRun, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    put(command_run.workspace, "a.py", "x = 1\n")

    def full(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((Path, "mkdir") if step == "mkdir" else (exec_run, step)), full)
    result = await command_run.call("exec/run", command="runtime-compile")
    monkeypatch.undo()
    assert (result.outcome, result.code) == ("failed", "io_error")
    assert result.text.startswith("nothing was run: ")
    assert command_run.left_over() == []


@pytest.mark.parametrize(("status", "receipt", "heading"), [
    (0, {"exit_code": 0}, "exit code 0, but it wrote more than 12288 bytes"), (1, {"exit_code": 1}, "exit code 1, but it wrote more than 12288 bytes"),
    (-9, {"signal": 9}, "stopped: it wrote more than 12288 bytes"),
])
def test_a_command_that_ended_by_itself_past_a_bound_has_its_exit_code(status: int, receipt: dict[str, int], heading: str) -> None:
    result = ended_result(CommandEnd(status, "output", b"x" * COMMAND_OUTPUT_BYTES, b""), {})
    assert (result.outcome, result.code, result.text.split("\n")[0]) == ("failed", "output", heading)
    assert {key: result.receipt[key] for key in ("exit_code", "signal") if key in result.receipt} == receipt


@pytest.mark.parametrize("output", [b"x" * COMMAND_OUTPUT_BYTES, b"x" * (COMMAND_OUTPUT_BYTES - 11), b"\xff" * 6000, b"x"])
@pytest.mark.parametrize("left_out", [(), ("b.py (symlink)",), tuple(f"{number}-{'n' * 200} (symlink)" for number in range(20))])
def test_a_result_keeps_its_bound_and_says_when_output_was_cut(output: bytes, left_out: tuple[str, ...]) -> None:
    result = ended_result(CommandEnd(0, None, output, b""), {}, left_out)
    whole = output.decode(errors="replace") in result.text
    assert len(result.text.encode()) <= COMMAND_OUTPUT_BYTES
    assert result.receipt["truncated"] is not whole
    assert ("not checked: " in result.text) == bool(left_out)


async def test_commands_of_all_agents_run_one_at_a_time(tmp_path: Path, worker_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, seen = asyncio.Lock(), most_at_once(monkeypatch, exec_run, "run_confined")
    runs = [make_run(tmp_path / str(number), worker_env) for number in range(3)]
    for run in runs:
        run.broker = CapabilityBroker(run.permissions, run.clock, worker_env, turn)
    results = await asyncio.gather(*(run.call("exec/run", command="true") for run in runs))
    assert ([one.outcome for one in results], max(seen)) == (["ok"] * 3, 1)


async def test_however_often_a_command_is_cancelled_its_process_and_directory_are_gone_first(command_run: ToolRun) -> None:
    before = children()
    calling = await begun(command_run.call("exec/run", command="printf %010000000d 1"))
    while not calling.done():
        calling.cancel()
        await asyncio.sleep(0)
    assert calling.cancelled()
    assert children() == before
    assert command_run.left_over() == []
    finished = command_run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert (finished.outcome, finished.code) == ("failed", "cancelled")


async def test_a_program_that_is_gone_when_the_operator_approves_makes_it_stale(
    command_run: ToolRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: object) -> None:
        def missing(name: str) -> str:
            raise SandboxFailed("There is no Bash.")

        monkeypatch.setattr(exec_run, "program_path", missing)

    command_run.operator = gone
    result = await command_run.call("exec/run", command="true")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert isinstance(command_run.faults[0], PermissionStale)


async def test_files_that_grow_while_they_are_copied_are_held_to_the_same_bound(command_run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"{number}.py" for number in range(5)]
    for path in paths:
        put(command_run.workspace, path, "#")
    real, looks = exec_run._check_sources, iter(["approval", "act", "copy"])

    def grown(place: exec_run.CommandPlace, bound: python_sources.Sources) -> python_sources.Sources:
        found = real(place, bound)
        if next(looks) == "copy":
            for path in paths:
                put(command_run.workspace, path, "#" * FILE_BYTES)
        return found

    monkeypatch.setattr(exec_run, "_check_sources", grown)
    result = await command_run.call("exec/run", command="runtime-compile")
    assert (result.outcome, result.code) == ("refused", "too_many")
    assert result.text == f"nothing was run: the *.py files have more than {COMPILE_BYTES} bytes"
    assert command_run.left_over() == []
