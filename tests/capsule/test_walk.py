import os
from pathlib import Path

import pytest

from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.walk import Walk
from agent_builder.protocol.limits import SEARCH_DEPTH, SEARCH_ENTRIES
from tests.support.capability import never, put


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    return place


def paths(walk: Walk) -> list[str]:
    return [one.path.text + "/" * one.directory for one in walk.below()]


def test_entries_come_in_the_byte_order_of_their_paths(workspace: Path) -> None:
    for path in ("a/x", "a-b", "a.txt", "é", "Z", "b/c/d", ".env"):
        put(workspace, path, "x")
    found = paths(Walk(workspace, never))
    assert found == sorted(found, key=str.encode)
    assert found == [".env", "Z", "a-b", "a.txt", "a/", "a/x", "b/", "b/c/", "b/c/d", "é"]


def test_git_and_writes_in_progress_are_never_seen(workspace: Path) -> None:
    for path in (".git/config", "sub/.git/config", "sub/.agent-builder-new-1", "sub/.gitignore"):
        put(workspace, path, "x")
    (workspace / "worktree").mkdir(mode=0o700)
    put(workspace, "worktree/.git", "gitdir: elsewhere")
    assert paths(Walk(workspace, never)) == ["sub/", "sub/.gitignore", "worktree/"]


def test_links_and_special_files_are_listed_with_their_refusal_and_not_entered(workspace: Path, tmp_path: Path) -> None:
    put(tmp_path, "outside/secret.txt", "x")
    (workspace / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(workspace / "pipe", 0o600)
    found = {one.path.text: one.refusal.reason if one.refusal else None for one in Walk(workspace, never).below()}
    assert found == {"link": "symlink", "pipe": "not_regular"}


def test_a_directory_that_others_may_write_is_left_out_and_counted(workspace: Path) -> None:
    put(workspace, "wide/a.txt", "x")
    (workspace / "wide").chmod(0o777)
    walk = Walk(workspace, never)
    assert paths(walk) == ["wide/"]
    assert walk.skipped == {"directory: mode": 1}


def test_a_name_that_no_path_can_spell_is_left_out_and_counted(workspace: Path) -> None:
    os.close(os.open(os.fsencode(workspace) + b"/bad\xff", os.O_CREAT, 0o600))
    put(workspace, "new\nline", "x")
    walk = Walk(workspace, never)
    assert paths(walk) == []
    assert walk.skipped == {"unusual name": 2}


def test_exactly_4096_entries_are_looked_at(workspace: Path) -> None:
    for number in range(SEARCH_ENTRIES):
        (workspace / f"{number:05}").touch(0o600)
    walk = Walk(workspace, never)
    assert len(paths(walk)) == SEARCH_ENTRIES
    assert walk.truncated == set()
    (workspace / "zzz").touch(0o600)
    walk = Walk(workspace, never)
    found = paths(walk)
    assert len(found) == SEARCH_ENTRIES
    assert found[-1] == f"{SEARCH_ENTRIES - 1:05}"
    assert walk.truncated == {"entries"}


def test_sixteen_directories_below_the_start_are_entered(workspace: Path) -> None:
    deepest = "/".join("d" * SEARCH_DEPTH)
    put(workspace, f"{deepest}/seen", "x")
    walk = Walk(workspace, never)
    assert f"{deepest}/seen" in paths(walk)
    assert walk.truncated == set()
    put(workspace, f"{deepest}/d/unseen", "x")
    walk = Walk(workspace, never)
    assert f"{deepest}/d/unseen" not in paths(walk)
    assert walk.truncated == {"depth"}


def test_a_walk_ends_when_its_time_is_over(workspace: Path) -> None:
    for number in range(10):
        put(workspace, f"{number}", "x")
    looks = iter([False] * 15)
    walk = Walk(workspace, lambda: next(looks, True))
    assert 0 < len(paths(walk)) < 10
    assert walk.truncated == {"time"}


def test_a_start_that_cannot_be_entered_is_refused(workspace: Path) -> None:
    with pytest.raises(FileRefused):
        list(Walk(workspace, never).below(("gone",)))


def test_a_walk_that_is_given_up_leaves_no_descriptor_open(workspace: Path) -> None:
    put(workspace, "a/b/c/d.txt", "x")
    before = sorted(os.listdir("/proc/self/fd"))
    for one in Walk(workspace, never).below():
        if not one.directory:
            break
    del one
    assert sorted(os.listdir("/proc/self/fd")) == before
