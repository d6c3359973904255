"""Confined commands through their whole handshake."""

import json
from pathlib import Path

import pytest

from agent_builder.protocol.limits import HANDSHAKE_BYTES
from agent_builder.sandbox.inspection import verify_confined
from agent_builder.sandbox.launch import command_command, release_line
from agent_builder.sandbox.released import READY_LINE
from tests.support.confined import run_command, started


def test_printf_gets_its_arguments_literally(worker_env: Path, tmp_path: Path) -> None:
    assert run_command("command-bash", worker_env, tmp_path, ["printf", "%s|", "$(id)", "`id`", "a;b", "*"]) == (0, "$(id)|`id`|a;b|*|", "")


def test_pwd_tells_the_working_directory(worker_env: Path, tmp_path: Path) -> None:
    assert run_command("command-bash", worker_env, tmp_path.resolve(), ["pwd"]) == (0, f"{tmp_path.resolve()}\n", "")


@pytest.mark.parametrize(("name", "status"), [("true", 0), ("false", 1)])
def test_the_exit_status_is_the_command_s_own(name: str, status: int, worker_env: Path, tmp_path: Path) -> None:
    assert run_command("command-bash", worker_env, tmp_path, [name]) == (status, "", "")


@pytest.mark.parametrize("arguments", [["exec", "/bin/ls"], ["eval", "ls"], ["source", "x"], ["ls"], []])
def test_any_other_builtin_is_refused_after_confinement_too(arguments: list[str], worker_env: Path, tmp_path: Path) -> None:
    assert run_command("command-bash", worker_env, tmp_path, arguments) == (125, "", "this command is not allowed\n")


@pytest.mark.parametrize("profile", ["command-compile", "git-status"])
def test_compile_and_git_take_no_arguments(profile: str, worker_env: Path, tmp_path: Path) -> None:
    assert run_command(profile, worker_env, tmp_path, ["--help"]) == (125, "", "this command is not allowed\n")


def test_a_command_that_is_never_released_does_nothing(worker_env: Path, tmp_path: Path) -> None:
    command, environment = command_command("command-compile", worker_env, tmp_path)
    with started(command, tmp_path, environment) as child:
        assert child.line() == READY_LINE
        assert child.finish() == (125, "", "")


def test_a_ready_command_is_verifiably_confined(worker_env: Path, tmp_path: Path) -> None:
    for profile in ("command-bash", "command-compile", "skill-script", "git-status"):
        command, environment = command_command(profile, worker_env, tmp_path)
        with started(command, tmp_path, environment) as child:
            assert child.line() == READY_LINE
            verify_confined(child.process.pid)


def test_compile_reports_each_syntax_error_with_path_and_line_and_keeps_nothing(worker_env: Path, tmp_path: Path) -> None:
    tree = tmp_path.resolve() / "copy"
    (tree / "deep").mkdir(parents=True)
    (tree / "good.py").write_text("x = 1\n", encoding="utf-8")
    (tree / "deep" / "bad.py").write_text("x = 1\nif x\n", encoding="utf-8")
    (tree / "zero.py").write_bytes(b"x = 1\0\n")
    (tree / "notes.txt").write_text("not ( python\n", encoding="utf-8")
    before = sorted(tree.rglob("*"))
    status, out, err = run_command("command-compile", worker_env, tree, [])
    lines = out.splitlines()
    assert (status, err) == (1, "")
    assert lines[0] == "deep/bad.py:2: expected ':'"
    assert lines[1].startswith("zero.py:1: ")
    assert lines[2:] == ["3 files, 2 with errors"]
    assert sorted(tree.rglob("*")) == before


@pytest.mark.parametrize("encoding", ["gb18030", "gbk", "big5", "shift_jis", "euc_kr", "latin-1", "utf-8-sig"])
def test_compile_knows_the_usual_source_encodings(encoding: str, worker_env: Path, tmp_path: Path) -> None:
    text = "caf\u00e9" if encoding == "latin-1" else "\u65e5\u672c" if encoding != "utf-8-sig" else "x"
    (tmp_path / "one.py").write_bytes(f"# -*- coding: {encoding} -*-\nx = '{text}'\n".encode(encoding))
    assert run_command("command-compile", worker_env, tmp_path.resolve(), []) == (0, "1 files, 0 with errors\n", "")


def test_compile_survives_source_that_is_too_deep(worker_env: Path, tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000 + "\n", encoding="utf-8")
    status, out, _ = run_command("command-compile", worker_env, tmp_path.resolve(), [])
    assert status == 1
    assert out.startswith("deep.py:1: ")


def test_compile_says_nothing_about_warnings(worker_env: Path, tmp_path: Path) -> None:
    (tmp_path / "warns.py").write_text("assert (1, 'always true')\nx = '\\d'\n", encoding="utf-8")
    assert run_command("command-compile", worker_env, tmp_path.resolve(), []) == (0, "1 files, 0 with errors\n", "")


def test_a_release_line_is_bounded() -> None:
    longest = "a" * (HANDSHAKE_BYTES - len(json.dumps({"arguments": [""]})) - 1)
    assert len(release_line([longest])) == HANDSHAKE_BYTES
    with pytest.raises(ValueError, match="too long"):
        release_line([longest + "a"])
