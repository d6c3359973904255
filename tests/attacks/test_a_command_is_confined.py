"""What Bash could do in its domain even if the parser let a whole script through."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_builder.protocol.limits import COMMAND_CPU_S
from agent_builder.sandbox.probes import Targets
from tests.support.confined import run_command, run_script


@pytest.mark.parametrize("script", ["(true)", "true | true", "x=$(true)", "true & wait"], ids=["subshell", "pipe", "substitution", "job"])
def test_bash_cannot_fork(script: str, worker_env: Path, tmp_path: Path) -> None:
    status, out, err = run_script(f"{script}; echo reached", worker_env, tmp_path)
    assert "fork: Operation not permitted" in err
    assert status != 0 or "reached" not in out


def test_bash_cannot_run_another_program(worker_env: Path, tmp_path: Path) -> None:
    status, _, err = run_script("exec /bin/ls", worker_env, tmp_path)
    assert status == 126
    assert "Permission denied" in err


def test_bash_cannot_run_a_program_that_lies_in_its_directory_through_the_loader(worker_env: Path, tmp_path: Path) -> None:
    copied = tmp_path / "program"
    shutil.copy(os.path.realpath("/bin/true"), copied)
    loader = os.path.realpath("/lib64/ld-linux-x86-64.so.2")
    status, _, err = run_script(f"exec {loader} {copied}", worker_env, tmp_path)
    assert status == 127
    assert "cannot open shared object file" in err or "Permission denied" in err


def test_bash_cannot_reach_the_network(worker_env: Path, tmp_path: Path, targets: Targets) -> None:
    status, out, err = run_script(f"exec 3<>/dev/tcp/127.0.0.1/{targets.port} && echo connected", worker_env, tmp_path)
    assert "connected" not in out
    assert status != 0
    assert "Operation not permitted" in err


def test_bash_cannot_read_its_own_directory_or_anything_else(worker_env: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("secret", encoding="utf-8")
    _, out, err = run_script("read -r line < file; echo \"$line\"; read -r line < /etc/passwd; echo \"$line\"", worker_env, tmp_path)
    assert out.strip() == ""
    assert err.count("Permission denied") == 2


def test_bash_cannot_write_a_file(worker_env: Path, tmp_path: Path) -> None:
    _, _, err = run_script("echo x > file; echo x > /tmp/agent-builder-escape", worker_env, tmp_path)
    assert err.count("Permission denied") == 2
    assert list(tmp_path.iterdir()) == []


def test_bash_cannot_signal_its_parent(worker_env: Path, tmp_path: Path) -> None:
    status, out, err = run_script("kill -0 $PPID && echo reached", worker_env, tmp_path)
    assert status != 0
    assert out == ""
    assert "Operation not permitted" in err


def test_bash_cannot_change_its_own_limits(worker_env: Path, tmp_path: Path) -> None:
    _, out, err = run_script("ulimit -S -t 1; ulimit -t", worker_env, tmp_path)
    assert out.strip() == str(COMMAND_CPU_S)
    assert "Operation not permitted" in err


def test_git_runs_neither_a_file_system_monitor_nor_a_filter(worker_env: Path, tmp_path: Path) -> None:
    workspace = hostile_repository(tmp_path)
    subprocess.run(["git", "status"], cwd=workspace, check=True, capture_output=True)
    assert (workspace / "ran").exists(), "the trap works outside the sandbox"
    (workspace / "ran").unlink()
    (workspace / "notes.txt").write_text("changed again\n", encoding="utf-8")
    status, out, _ = run_command("git-status", worker_env, workspace, [])
    assert (status, out.splitlines()[0].split(".")[0]) == (0, "## No commits yet on main")
    assert not (workspace / "ran").exists()


def test_git_can_write_nothing_into_the_repository(worker_env: Path, tmp_path: Path) -> None:
    workspace = hostile_repository(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in sorted(workspace.rglob("*"))}
    run_command("git-status", worker_env, workspace, [])
    assert {path: path.stat().st_mtime_ns for path in sorted(workspace.rglob("*"))} == before


def hostile_repository(tmp_path: Path) -> Path:
    workspace = (tmp_path / "workspace").resolve()
    workspace.mkdir()
    trap = workspace / "trap.sh"
    trap.write_text("#!/bin/sh\n: > ran\ncat\n", encoding="utf-8")
    trap.chmod(0o755)
    (workspace / "notes.txt").write_text("one\n", encoding="utf-8")
    (workspace / ".gitattributes").write_text("*.txt filter=trap\n", encoding="utf-8")
    for arguments in (
        ["init", "-q", "-b", "main"], ["add", "notes.txt"], ["config", "core.fsmonitor", str(trap)],
        ["config", "filter.trap.clean", str(trap)],
    ):
        subprocess.run(["git", *arguments], cwd=workspace, check=True, capture_output=True)
    (workspace / "notes.txt").write_text("changed\n", encoding="utf-8")
    return workspace
