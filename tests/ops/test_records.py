"""A PID record is worth nothing until the process proves to be the recorded one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_builder.ops.records import Found, Role, Standing, find, record_path, record_text, remove_record, write_record
from agent_builder.sandbox.process_identity import ProcessIdentity, boot_id, identify


@pytest.fixture
def control_plane(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout/.runtime/control-plane"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def child(control_plane: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that works in the root of the checkout and lives until its stdin closes."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, cwd=control_plane.parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()


def test_a_missing_record_is_absent(control_plane: Path) -> None:
    assert find(control_plane, Role.GATEWAY) == Found(Standing.ABSENT)


def test_a_recorded_process_that_lives_is_alive(control_plane: Path, child: subprocess.Popen[bytes]) -> None:
    write_record(control_plane, Role.GATEWAY, identify(child.pid), port=20815)
    found = find(control_plane, Role.GATEWAY)
    assert found.standing is Standing.ALIVE
    assert found.record is not None
    assert (found.record.identity, found.record.port) == (identify(child.pid), 20815)


def test_a_record_is_private(control_plane: Path, child: subprocess.Popen[bytes]) -> None:
    write_record(control_plane, Role.GATEWAY, identify(child.pid))
    assert record_path(control_plane, Role.GATEWAY).stat().st_mode & 0o777 == 0o600


def test_the_same_number_with_another_start_time_is_foreign(control_plane: Path, child: subprocess.Popen[bytes]) -> None:
    now = identify(child.pid)
    write_record(control_plane, Role.GATEWAY, ProcessIdentity(now.pid, now.start_ticks + 1, now.boot_id))
    assert find(control_plane, Role.GATEWAY).standing is Standing.FOREIGN


def test_the_same_number_after_another_boot_is_foreign(control_plane: Path, child: subprocess.Popen[bytes]) -> None:
    now = identify(child.pid)
    write_record(control_plane, Role.GATEWAY, ProcessIdentity(now.pid, now.start_ticks, "another-boot"))
    assert find(control_plane, Role.GATEWAY).standing is Standing.FOREIGN


def test_a_process_that_works_outside_the_checkout_is_foreign(control_plane: Path) -> None:
    write_record(control_plane, Role.GATEWAY, identify(os.getpid()))
    assert find(control_plane, Role.GATEWAY).standing is Standing.FOREIGN


def test_a_process_that_has_ended_is_gone(control_plane: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    write_record(control_plane, Role.GATEWAY, identify(ended.pid))
    ended.communicate(b"\n")
    assert find(control_plane, Role.GATEWAY).standing is Standing.GONE


@pytest.mark.parametrize(
    "text",
    [
        "", "12 34", "-1", "0", "1", "99999999999999999999", "[]", "null", "{}", '{"pid": 5}', "{" * 9000,
        json.dumps({"pid": 1, "start_time": 1, "boot_id": "x", "role": "gateway", "port": 0}),
        json.dumps({"pid": -5, "start_time": 1, "boot_id": "x", "role": "gateway", "port": 0}),
        json.dumps({"pid": True, "start_time": 1, "boot_id": "x", "role": "gateway", "port": 0}),
        json.dumps({"pid": 5, "start_time": 1, "boot_id": "x", "role": "supervisor", "port": 0}),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_ours_is_foreign(control_plane: Path, text: str) -> None:
    record_path(control_plane, Role.GATEWAY).write_text(text)
    assert find(control_plane, Role.GATEWAY) == Found(Standing.FOREIGN)


def test_a_lost_supervisor_record_is_found_through_its_lock(control_plane: Path, child: subprocess.Popen[bytes]) -> None:
    record_path(control_plane, Role.SUPERVISOR).write_text("garbage")
    (control_plane / "supervisor.lock").write_text(record_text(Role.SUPERVISOR, identify(child.pid)))
    found = find(control_plane, Role.SUPERVISOR)
    assert found.standing is Standing.ALIVE
    assert found.record is not None
    assert found.record.pid == child.pid


def test_the_lock_of_a_dead_supervisor_counts_for_nothing(control_plane: Path) -> None:
    dead = ProcessIdentity(2**22 + 1, 1, boot_id())
    (control_plane / "supervisor.lock").write_text(record_text(Role.SUPERVISOR, dead))
    assert find(control_plane, Role.SUPERVISOR) == Found(Standing.ABSENT)


def test_removing_a_record_twice_is_fine(control_plane: Path) -> None:
    record_path(control_plane, Role.GATEWAY).write_text("x")
    remove_record(control_plane, Role.GATEWAY)
    remove_record(control_plane, Role.GATEWAY)
    assert find(control_plane, Role.GATEWAY) == Found(Standing.ABSENT)
