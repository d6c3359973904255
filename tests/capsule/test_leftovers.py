import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_builder.capsule import leftovers
from agent_builder.capsule.leftovers import remove_reserved_temps
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import RESERVED_TEMPS, SEARCH_ENTRIES
from tests.support.capability import put


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    return place


def new_name(number: int) -> str:
    return f".agent-builder-new-{number:016x}"


def swap_name(inode: int, old: bytes) -> str:
    return f".agent-builder-swap-{inode}-{digest_bytes(old)}-{0:016x}"


def test_a_clean_workspace_stays_as_it_is(workspace: Path) -> None:
    put(workspace, "a/b.txt", "x")
    assert remove_reserved_temps(workspace) == 0
    assert (workspace / "a/b.txt").read_bytes() == b"x"


def test_an_unfinished_file_is_removed_wherever_it_lies(workspace: Path) -> None:
    put(workspace, new_name(1), "half")
    put(workspace, f"a/b/{new_name(2)}", "half")
    put(workspace, "a/b/agent-builder.md", "stays")
    assert remove_reserved_temps(workspace) == 2
    assert os.listdir(workspace / "a/b") == ["agent-builder.md"]


def test_a_duly_replaced_file_is_removed(workspace: Path) -> None:
    put(workspace, swap_name(1, b"old"), "old")
    assert remove_reserved_temps(workspace) == 1
    assert os.listdir(workspace) == []


def test_somebodys_edit_returns_to_its_place(workspace: Path) -> None:
    ours = put(workspace, "notes.md", "new")
    put(workspace, swap_name(ours.stat().st_ino, b"old"), "edited by hand")
    assert remove_reserved_temps(workspace) == 1
    assert os.listdir(workspace) == ["notes.md"]
    assert (workspace / "notes.md").read_bytes() == b"edited by hand"


def test_at_most_sixteen_are_removed_at_once(workspace: Path) -> None:
    for number in range(RESERVED_TEMPS + 1):
        put(workspace, new_name(number), "x")
    assert remove_reserved_temps(workspace) == RESERVED_TEMPS
    assert remove_reserved_temps(workspace) == 1


def test_a_link_with_a_reserved_name_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    outside = put(tmp_path, f"outside/{new_name(1)}", "x")
    (workspace / new_name(2)).symlink_to(outside)
    (workspace / "d").symlink_to(outside.parent)
    assert remove_reserved_temps(workspace) == 0
    assert outside.exists()


@pytest.mark.parametrize("name", [
    ".agent-builder-new-plan.md", ".agent-builder-new-", ".agent-builder-new-0123", ".agent-builder-new-0123456789abcdef.md",
    ".agent-builder-new-0123456789ABCDEF", ".agent-builder-swap-1-abc-0123456789abcdef", ".agent-builder-swap-notes",
    f".agent-builder-swap-x-{digest_bytes(b'x')}-0123456789abcdef",
])
def test_a_file_that_is_only_called_something_like_it_stays(workspace: Path, name: str) -> None:
    mine = put(workspace, name, "x")
    assert remove_reserved_temps(workspace) == 0
    assert mine.read_text() == "x"


def unsafe(workspace: Path) -> None:
    workspace.chmod(0o770)


def removed(workspace: Path) -> None:
    for file in workspace.iterdir():
        file.unlink()
    workspace.rmdir()


def a_link(workspace: Path) -> None:
    workspace.rename(workspace.with_name("elsewhere"))
    workspace.symlink_to("elsewhere")


@pytest.mark.parametrize("change", [unsafe, removed, a_link])
def test_a_workspace_that_cannot_be_used_is_left_as_it_is_and_told_in_the_log(
    workspace: Path, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    put(workspace, new_name(1), "half")
    change(workspace)
    assert remove_reserved_temps(workspace) == 0
    assert "are not looked for" in caplog.text


def test_one_file_that_cannot_be_cleared_does_not_keep_the_others(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(workspace, swap_name(1, b"old"), "edited by hand")
    put(workspace, new_name(1), "half")

    def unreadable(directory: int, name: str) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(leftovers, "_digest", unreadable)
    assert remove_reserved_temps(workspace) == 1
    assert os.listdir(workspace) == [swap_name(1, b"old")]
    assert "stays: Permission denied" in caplog.text


def test_what_lies_behind_many_entries_is_found(workspace: Path) -> None:
    for number in range(SEARCH_ENTRIES):
        (workspace / f"{number:05}").touch()
    put(workspace, f"z/{new_name(1)}", "half")
    assert remove_reserved_temps(workspace) == 1
