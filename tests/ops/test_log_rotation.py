"""The logs never grow beyond their bound and lose nothing that was written last."""

from pathlib import Path

import pytest

from agent_builder.ops.log_rotation import RotatingLog


def test_output_is_collected_and_written_by_flush(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "gateway.log")
    log.write(b"one\n")
    assert log.pending
    assert not log.path.exists()
    log.flush()
    assert not log.pending
    assert log.path.read_bytes() == b"one\n"


def test_a_log_file_is_private(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "gateway.log")
    log.write(b"one\n")
    log.flush()
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_a_file_filled_to_its_limit_is_kept_and_one_more_byte_rotates(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "g.log", limit=10, backups=3)
    log.write(b"0123456789")
    log.flush()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["g.log"]
    log.write(b"x")
    log.flush()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"g.log": b"x", "g.log.1": b"0123456789"}


def test_only_the_bounded_number_of_older_files_is_kept(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "g.log", limit=4, backups=3)
    for number in range(9):
        log.write(b"%04d" % number)
        log.flush()
    kept = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert kept == {"g.log": b"0008", "g.log.1": b"0007", "g.log.2": b"0006", "g.log.3": b"0005"}


def test_output_larger_than_a_file_is_cut_into_files_within_the_limit(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "g.log", limit=8, backups=3)
    log.write(b"a" * 20)
    log.flush()
    sizes = {each.name: each.stat().st_size for each in tmp_path.iterdir()}
    assert sizes == {"g.log": 4, "g.log.1": 8, "g.log.2": 8}


def test_a_log_that_cannot_be_written_costs_lines_and_says_how_many(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    log = RotatingLog(folder / "g.log")
    log.write(b"lost\n")
    log.flush()
    folder.mkdir()
    log.write(b"kept\n")
    log.flush()
    assert log.path.read_bytes() == b"[5 bytes of log could not be written]\nkept\n"


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"safe")
    (tmp_path / "g.log").symlink_to(victim)
    log = RotatingLog(tmp_path / "g.log")
    log.write(b"evil")
    log.flush()
    assert victim.read_bytes() == b"safe"


@pytest.mark.parametrize("size", [64 * 1024 - 1, 64 * 1024])
def test_a_batch_is_written_at_once_when_it_is_full(tmp_path: Path, size: int) -> None:
    log = RotatingLog(tmp_path / "g.log")
    log.write(b"x" * size)
    assert log.pending == (size < 64 * 1024)
