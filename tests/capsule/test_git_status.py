import subprocess
from pathlib import Path

import pytest

from agent_builder.capsule.git_status import git_status
from agent_builder.protocol.limits import GIT_STATUS_BYTES
from tests.support.capability import put
from tests.support.clock import MovableClock


def git(place: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *arguments], cwd=place, check=True, capture_output=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = (tmp_path / "workspace").resolve()
    place.mkdir(mode=0o700)
    return place


async def status(workspace: Path, worker_env: Path) -> str | None:
    return await git_status(workspace, worker_env, MovableClock())


async def test_a_workspace_that_is_no_repository_has_no_status(workspace: Path, worker_env: Path) -> None:
    git(workspace.parent, "init", "-q")
    assert await status(workspace, worker_env) is None


async def test_tracked_changes_are_shown_and_untracked_files_not(workspace: Path, worker_env: Path) -> None:
    git(workspace, "init", "-q")
    put(workspace, "a.txt", "one\n")
    git(workspace, "add", "a.txt")
    git(workspace, "commit", "-q", "-m", "first")
    put(workspace, "a.txt", "two\n")
    put(workspace, "untracked.txt", "x")
    assert await status(workspace, worker_env) == "## main\n M a.txt\n"


async def test_a_programme_named_by_the_repository_is_not_run(workspace: Path, worker_env: Path, tmp_path: Path) -> None:
    git(workspace, "init", "-q")
    put(workspace, "a.txt", "one\n")
    git(workspace, "add", "a.txt")
    git(workspace, "commit", "-q", "-m", "first")
    trace = tmp_path / "ran"
    program = put(tmp_path, "attack.sh", f"#!/bin/sh\ntouch {trace}\ncat\n", 0o755)
    git(workspace, "config", "core.fsmonitor", str(program))
    git(workspace, "config", "filter.x.clean", str(program))
    put(workspace, ".gitattributes", "*.txt filter=x\n")
    put(workspace, "a.txt", "two\n")
    found = await status(workspace, worker_env)
    assert not trace.exists()
    assert found is not None
    assert "a.txt" in found
    subprocess.run(["git", "status"], cwd=workspace, check=True, capture_output=True)
    assert trace.exists(), "the same repository does run it without confinement"


async def test_a_long_status_is_cut_at_a_line_and_says_so(workspace: Path, worker_env: Path) -> None:
    git(workspace, "init", "-q")
    for number in range(400):
        put(workspace, f"{number:04}-{'x' * 60}.txt", "x")
    git(workspace, "add", ".")
    found = await status(workspace, worker_env)
    assert found is not None
    assert len(found.encode()) <= GIT_STATUS_BYTES
    *lines, last = found.splitlines()
    assert last == "(more changes than shown)"
    assert all(line.endswith(".txt") for line in lines[1:])
