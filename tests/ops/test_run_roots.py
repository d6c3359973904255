"""Left-over run roots go away only after proof that no process uses them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_builder.ops.run_roots import remove_unused_roots


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    for root in ("a/runs/one", "a/spare/two", "b/runs/three", "b/tasks/four"):
        (tmp_path / root / "tmp").mkdir(parents=True)
        (tmp_path / root / "tmp/file").write_text("x")
    return tmp_path


@contextmanager
def process(code: str, *arguments: str, cwd: Path | None = None) -> Iterator[None]:
    command = [sys.executable, "-c", f"{code}; print(flush=True); input()", *arguments]
    with subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield
        child.communicate(b"\n")


def test_unused_roots_are_removed(agents: Path) -> None:
    assert remove_unused_roots(agents) == []
    assert not any(agents.glob("*/*/*"))


def test_a_root_that_a_process_works_in_is_left(agents: Path) -> None:
    with process("pass", cwd=agents / "a/runs/one/tmp"):
        assert remove_unused_roots(agents) == [agents / "a/runs/one"]
    assert [each.name for each in agents.glob("*/*/*")] == ["one"]


def test_a_root_with_an_open_file_is_left(agents: Path) -> None:
    with process("import sys; f = open(sys.argv[1] + '/file')", str(agents / "a/spare/two/tmp")):
        assert remove_unused_roots(agents) == [agents / "a/spare/two"]


def test_every_root_of_an_agent_is_left_while_one_of_its_workers_lives(agents: Path) -> None:
    with process("pass", str(agents / "a/worker-env/1/worker")):
        assert remove_unused_roots(agents) == [agents / "a/runs/one", agents / "a/spare/two"]
    assert [each.name for each in agents.glob("b/*/*")] == []


def test_a_link_in_place_of_a_root_is_removed_and_its_target_is_not(agents: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "precious").write_text("x")
    (agents / "b/runs/link").symlink_to(target)
    assert remove_unused_roots(agents) == []
    assert (target / "precious").exists()


def test_no_runtime_at_all_is_fine(tmp_path: Path) -> None:
    assert remove_unused_roots(tmp_path / "nothing") == []
