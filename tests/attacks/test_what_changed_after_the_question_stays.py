"""The operator approves one change of one version of one file. Whatever happens meanwhile, it is that change or none."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_builder.capsule import atomic_replace
from agent_builder.protocol.errors import PermissionStale
from agent_builder.protocol.events import PermissionResolved
from tests.support.capability import ToolRun, make_run, put


@pytest.fixture
def run(tmp_path: Path) -> ToolRun:
    run = make_run(tmp_path)
    put(run.workspace, "d/n.txt", "one\n")
    put(tmp_path, "outside/n.txt", "one\n")
    return run


def swap_directory(file: Path, outside: Path) -> None:
    file.parent.rename(file.parent.with_name("d2"))
    file.parent.symlink_to(outside)


def swap_leaf(file: Path, outside: Path) -> None:
    file.unlink()
    file.symlink_to(outside / "n.txt")


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "saved in place": lambda file, _: file.write_text("mine\n"),
    "saved by renaming over": lambda file, _: put(file.parent, "t", "mine\n").replace(file),
    "truncated": lambda file, _: os.truncate(file, 0),
    "removed": lambda file, _: file.unlink(),
    "mode": lambda file, _: file.chmod(0o400),
    "one byte more": lambda file, _: file.write_text("one\n!"),
    "opened to others": lambda file, _: file.chmod(0o666),
    "directory swapped for a link": swap_directory,
    "file swapped for a link": swap_leaf,
}


def picture(workspace: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for directory, folders, files in os.walk(workspace):
        for name in [*folders, *files]:
            path = Path(directory, name)
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(workspace))] = (path.lstat().st_mode, content)
    return found


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_while_the_card_is_open_makes_the_approval_stale(run: ToolRun, tmp_path: Path, change: str) -> None:
    after: dict[str, tuple[int, bytes]] = {}

    def meddle(_: object) -> None:
        CHANGES[change](run.workspace / "d/n.txt", tmp_path / "outside")
        after.update(picture(run.workspace))

    run.operator = meddle
    await run.call("file/read_text", path="d/n.txt")
    result = await run.call("file/edit", path="d/n.txt", old="one", new="two")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert isinstance(run.faults[0], PermissionStale)
    resolved = run.last(PermissionResolved)
    assert isinstance(resolved, PermissionResolved)
    assert resolved.decision == "stale"
    assert picture(run.workspace) == after
    assert (tmp_path / "outside/n.txt").read_text() == "one\n"
    assert run.left_over() == []


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_after_the_approval_is_refused_and_stays(
    run: ToolRun, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approved, and before anything was written the file is another one: approved but not applied."""
    after: dict[str, tuple[int, bytes]] = {}
    real = atomic_replace.replace_file

    def late(workspace: Path, *arguments: object) -> None:
        CHANGES[change](run.workspace / "d/n.txt", tmp_path / "outside")
        after.update(picture(run.workspace))
        real(workspace, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("agent_builder.tools.file_write.replace_file", late)
    await run.call("file/read_text", path="d/n.txt")
    result = await run.call("file/edit", path="d/n.txt", old="one", new="two")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert run.types()[-4:] == ["permission.requested", "permission.resolved", "tool.call.started", "tool.call.finished"]
    assert picture(run.workspace) == after
    assert (tmp_path / "outside/n.txt").read_text() == "one\n"
    assert run.left_over() == []


async def test_a_file_that_appears_after_the_question_is_not_overwritten(run: ToolRun) -> None:
    run.operator = lambda _: put(run.workspace, "new.txt", "mine\n")
    result = await run.call("file/write", path="new.txt", content="theirs\n")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert (run.workspace / "new.txt").read_text() == "mine\n"
    assert run.left_over() == []
