import os
from pathlib import Path

import pytest

from agent_builder.capsule.instructions import (
    DEFAULT_TEXT,
    INSTRUCTIONS_NAME,
    Instructions,
    read_instructions,
    restore_default,
)
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.errors import InstructionsRefused
from agent_builder.protocol.limits import INSTRUCTION_FILE_BYTES
from tests.support.capability import put

LARGEST_DEFAULT = 400


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    return place


def refusal(workspace: Path) -> str:
    with pytest.raises(InstructionsRefused) as refused:
        read_instructions(workspace)
    return refused.value.message


def test_missing_instructions_are_none(workspace: Path) -> None:
    assert read_instructions(workspace) is None


def test_instructions_are_read_byte_for_byte(workspace: Path) -> None:
    data = "# 说明\r\nBe brief.".encode()
    put(workspace, INSTRUCTIONS_NAME, data, 0o644)
    assert read_instructions(workspace) == Instructions(data.decode(), len(data), digest_bytes(data))


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md", "docs/agent-builder.md", "Agent-Builder.md"])
def test_no_other_file_is_read(workspace: Path, name: str) -> None:
    put(workspace, name, "x")
    assert read_instructions(workspace) is None


@pytest.mark.parametrize("mode", [0o620, 0o606, 0o666])
def test_unsafe_modes_are_refused_with_the_way_to_mend_them(workspace: Path, mode: int) -> None:
    put(workspace, INSTRUCTIONS_NAME, "x", mode)
    assert "chmod 600 agent-builder.md" in refusal(workspace)


def test_links_and_odd_files_are_refused(workspace: Path, tmp_path: Path) -> None:
    target = workspace / INSTRUCTIONS_NAME
    target.symlink_to(put(tmp_path, "outside.md", "secret"))
    assert "symbolic link" in refusal(workspace)
    target.unlink()
    os.mkfifo(target, 0o600)
    assert "FIFO" in refusal(workspace)
    target.unlink()
    target.mkdir(mode=0o700)
    assert "directory" in refusal(workspace)
    target.rmdir()
    put(workspace, INSTRUCTIONS_NAME, b"\xff")
    assert "UTF-8" in refusal(workspace)
    os.link(target, workspace / "second")
    assert "hard links" in refusal(workspace)


def test_32_kib_are_read_and_one_byte_more_refused(workspace: Path) -> None:
    put(workspace, INSTRUCTIONS_NAME, b"x" * INSTRUCTION_FILE_BYTES)
    found = read_instructions(workspace)
    assert found is not None
    assert found.bytes == INSTRUCTION_FILE_BYTES
    put(workspace, INSTRUCTIONS_NAME, b"x" * (INSTRUCTION_FILE_BYTES + 1))
    assert str(INSTRUCTION_FILE_BYTES) in refusal(workspace)


def test_the_default_is_short_and_private(workspace: Path) -> None:
    assert restore_default(workspace)
    target = workspace / INSTRUCTIONS_NAME
    assert target.read_text() == DEFAULT_TEXT
    assert target.stat().st_mode & 0o777 == 0o600
    assert len(DEFAULT_TEXT.encode()) <= LARGEST_DEFAULT
    assert os.listdir(workspace) == [INSTRUCTIONS_NAME]


def test_what_exists_is_never_overwritten(workspace: Path) -> None:
    put(workspace, INSTRUCTIONS_NAME, "mine", 0o666)
    assert not restore_default(workspace)
    assert (workspace / INSTRUCTIONS_NAME).read_text() == "mine"
    (workspace / INSTRUCTIONS_NAME).unlink()
    (workspace / INSTRUCTIONS_NAME).symlink_to("gone")
    assert not restore_default(workspace)
    assert not (workspace / "gone").exists()
