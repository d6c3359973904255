import os
from pathlib import Path

import pytest

from agent_builder.capsule.leftovers import remove_reserved_temps
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import RESERVED_TEMPS
from tests.support.capability import put


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    return place


def test_a_clean_workspace_stays_as_it_is(workspace: Path) -> None:
    put(workspace, "a/b.txt", "x")
    assert remove_reserved_temps(workspace) == 0
    assert (workspace / "a/b.txt").read_bytes() == b"x"


def test_an_unfinished_file_is_removed_wherever_it_lies(workspace: Path) -> None:
    put(workspace, ".agent-builder-new-01", "half")
    put(workspace, "a/b/.agent-builder-new-02", "half")
    put(workspace, "a/b/agent-builder.md", "stays")
    assert remove_reserved_temps(workspace) == 2
    assert os.listdir(workspace / "a/b") == ["agent-builder.md"]


def test_a_duly_replaced_file_is_removed(workspace: Path) -> None:
    put(workspace, f".agent-builder-swap-1-{digest_bytes(b'old')}-00", "old")
    assert remove_reserved_temps(workspace) == 1
    assert os.listdir(workspace) == []


def test_somebodys_edit_returns_to_its_place(workspace: Path) -> None:
    ours = put(workspace, "notes.md", "new")
    put(workspace, f".agent-builder-swap-{ours.stat().st_ino}-{digest_bytes(b'old')}-00", "edited by hand")
    assert remove_reserved_temps(workspace) == 1
    assert os.listdir(workspace) == ["notes.md"]
    assert (workspace / "notes.md").read_bytes() == b"edited by hand"


def test_at_most_sixteen_are_removed_at_once(workspace: Path) -> None:
    for number in range(RESERVED_TEMPS + 1):
        put(workspace, f".agent-builder-new-{number:02}", "x")
    assert remove_reserved_temps(workspace) == RESERVED_TEMPS
    assert remove_reserved_temps(workspace) == 1


def test_a_link_with_a_reserved_name_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    outside = put(tmp_path, "outside/.agent-builder-new-01", "x")
    (workspace / ".agent-builder-new-02").symlink_to(outside)
    (workspace / "d").symlink_to(outside.parent)
    assert remove_reserved_temps(workspace) == 0
    assert outside.exists()
