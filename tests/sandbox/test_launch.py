import json
import os
import shutil
from pathlib import Path

import pytest

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.sandbox import launch
from agent_builder.sandbox.launch import (
    command_command,
    dynamic_loader,
    interpreter,
    program_path,
    worker_command,
    worker_environment,
)


def test_a_worker_is_started_isolated_without_site_and_without_writing_bytecode(tmp_path: Path) -> None:
    assert worker_command(tmp_path / "env") == [interpreter(), "-I", "-S", "-B", str(tmp_path / "env" / "worker")]
    assert worker_environment() == {"LC_ALL": "C.UTF-8", "TMPDIR": "."}


def test_the_interpreter_is_the_binary_behind_the_virtual_environment() -> None:
    assert os.path.realpath(interpreter()) == interpreter()
    assert ".venv" not in interpreter()


def test_nothing_of_our_environment_reaches_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    _, environment = command_command("command-bash", tmp_path, tmp_path)
    assert environment == {"LC_ALL": "C", "PWD": str(tmp_path)}


def test_only_git_and_compile_may_read_the_directory(tmp_path: Path) -> None:
    def granted(profile: str) -> list[list[str]]:
        return json.loads(command_command(profile, tmp_path, tmp_path)[0][-1])  # type: ignore[no-any-return]

    assert str(tmp_path) in granted("git-status")[0]
    assert str(tmp_path) in granted("command-compile")[0]
    assert str(tmp_path) not in json.dumps(granted("command-bash"))
    assert [granted(profile)[2] for profile in ("git-status", "command-compile", "command-bash")] == [[], [], []]


def test_a_dynamic_program_names_its_loader_and_anything_else_is_refused(tmp_path: Path) -> None:
    loader = dynamic_loader(program_path("command-bash"))
    assert loader is not None
    assert os.path.realpath(loader) == loader
    script = tmp_path / "script"
    for content in (b"", b"#!/bin/sh\n" + b" " * 100, b"\x7fELF\x01" + bytes(100)):
        script.write_bytes(content)
        with pytest.raises(SandboxFailed, match="ELF"):
            dynamic_loader(str(script))


def test_a_program_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "_PROGRAM_DIRECTORIES", (str(tmp_path),))
    with pytest.raises(SandboxFailed, match="git is not installed"):
        program_path("git-status")


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_program_that_others_can_change_is_refused(mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copy("/bin/true", tmp_path / "bash")
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.setattr(launch, "_PROGRAM_DIRECTORIES", (str(tmp_path),))
    assert program_path("command-bash") == str((tmp_path / "bash").resolve())
    (tmp_path / "bash").chmod(mode)
    with pytest.raises(SandboxFailed, match="Others can change"):
        program_path("command-bash")
