import shutil
import stat
from pathlib import Path

import pytest

from agent_builder.capsule.worker_env import verify_worker_env, write_worker_env
from agent_builder.protocol.errors import SandboxFailed


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("generation") / "1"
    write_worker_env(target)
    return target


@pytest.fixture
def copy(sealed: Path, tmp_path: Path) -> Path:
    target = tmp_path / "1"
    shutil.copytree(sealed, target)
    return target


def test_a_written_environment_verifies(sealed: Path) -> None:
    verify_worker_env(sealed)
    assert [path.name for path in sealed.parent.iterdir()] == ["1"]


def test_nobody_else_may_look_into_it(sealed: Path) -> None:
    modes = {stat.S_IMODE(path.stat().st_mode) for path in sealed.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (sealed, *sealed.rglob("*")) if path.is_dir()} == {0o700}


def test_the_gateway_s_modules_are_not_in_it(sealed: Path) -> None:
    names = {path.name for path in sealed.rglob("*.py")}
    assert names >= {"__main__.py", "kernel.py", "confine.py", "frames.py"}
    assert not names & {"bpf_build.py", "qualify.py", "launch.py", "events.py", "errors.py"}


def test_writing_again_replaces_what_was_there(copy: Path) -> None:
    (copy / "left-over").write_text("x", encoding="utf-8")
    write_worker_env(copy)
    verify_worker_env(copy)
    assert not (copy / "left-over").exists()


def test_a_building_directory_left_by_a_crash_is_no_obstacle(copy: Path) -> None:
    copy.with_name("1.building").mkdir()
    write_worker_env(copy)
    verify_worker_env(copy)
    assert not copy.with_name("1.building").exists()


@pytest.mark.parametrize("name", ["closed.bpf", "worker/agent_builder/worker/kernel.py", "worker/agent_builder/protocol/__pycache__"])
def test_a_changed_file_is_refused(name: str, copy: Path) -> None:
    changed = copy / name
    if changed.is_dir():
        changed = next(changed.iterdir())
    changed.write_bytes(changed.read_bytes() + b"\n")
    with pytest.raises(SandboxFailed, match="was changed"):
        verify_worker_env(copy)


def test_an_added_file_is_refused(copy: Path) -> None:
    (copy / "worker" / "sitecustomize.py").write_text("", encoding="utf-8")
    with pytest.raises(SandboxFailed, match="was changed"):
        verify_worker_env(copy)


def test_a_missing_file_is_refused(copy: Path) -> None:
    (copy / "foreign.bpf").unlink()
    with pytest.raises(SandboxFailed, match="was changed"):
        verify_worker_env(copy)


def test_a_symlink_in_it_is_refused(copy: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(copy / "closed.bpf", elsewhere)
    (copy / "closed.bpf").symlink_to(elsewhere)
    with pytest.raises(SandboxFailed, match="was changed"):
        verify_worker_env(copy)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]"])
def test_a_manifest_that_cannot_be_read_is_refused(content: bytes | None, copy: Path) -> None:
    (copy / "manifest.json").unlink()
    if content is not None:
        (copy / "manifest.json").write_bytes(content)
    with pytest.raises(SandboxFailed):
        verify_worker_env(copy)


def test_an_environment_of_another_version_is_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_builder.capsule import worker_env

    monkeypatch.setattr(worker_env, "build_programs", lambda: {"closed": b"newer", "foreign": b"newer"})
    with pytest.raises(SandboxFailed, match="another version"):
        verify_worker_env(copy)
