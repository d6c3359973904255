"""bootstrap.sh: a clean checkout becomes usable, again does nothing, and no failure takes a working environment away."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout_copy import CheckoutCopy, share_downloads


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> CheckoutCopy:
    """A copy that was bootstrapped once."""
    copy = CheckoutCopy(tmp_path_factory.mktemp("bootstrap"), with_own_environment=True)
    share_downloads(copy.root)
    done = copy.sh("bootstrap.sh")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return copy


@pytest.fixture
def lock(made: CheckoutCopy) -> Iterator[Path]:
    """The lock file, put back afterwards."""
    path = made.root / "config/requirements.txt"
    kept = path.read_bytes()
    yield path
    path.write_bytes(kept)


def environment(copy: CheckoutCopy) -> tuple[int, int]:
    """Which environment is in place."""
    stat = (copy.root / ".venv/agent-builder-stamp").stat()
    return stat.st_ino, stat.st_mtime_ns


def imports(copy: CheckoutCopy) -> int:
    return subprocess.run([copy.root / ".venv/bin/python", "-I", "-c", "import starlette, uvloop, pyseccomp"], check=False).returncode


def test_the_packages_of_the_lock_file_are_there(made: CheckoutCopy) -> None:
    assert imports(made) == 0


def test_nothing_in_the_environment_is_open_to_others(made: CheckoutCopy) -> None:
    assert [str(path) for path in (made.root / ".venv").rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022] == []


def test_a_second_run_does_nothing(made: CheckoutCopy) -> None:
    before = environment(made)
    again = made.sh("bootstrap.sh", "--offline")
    assert (again.returncode, again.stdout, environment(made)) == (0, "agent-builder: bootstrap: ready\n", before)


def test_a_package_with_another_hash_is_refused_and_the_former_environment_stays(made: CheckoutCopy, lock: Path) -> None:
    before = environment(made)
    lock.write_text(lock.read_text().replace("--hash=sha256:", "--hash=sha256:0000"))
    failed = made.sh("bootstrap.sh")
    assert failed.returncode == 1
    assert "the former environment, if any, is unchanged" in failed.stderr
    assert (environment(made), imports(made)) == (before, 0)


def test_what_an_interrupted_run_left_is_cleared_away(made: CheckoutCopy) -> None:
    (made.root / ".venv").rename(made.root / ".venv.former")
    (made.root / ".venv.building").mkdir()
    done = made.sh("bootstrap.sh", "--offline")
    assert (done.returncode, imports(made)) == (0, 0)
    assert (made.root / ".venv.former").exists() is False


def test_a_half_made_environment_is_not_taken_for_a_whole_one(made: CheckoutCopy) -> None:
    (made.root / ".venv/agent-builder-stamp").unlink()
    done = made.sh("bootstrap.sh", "--offline")
    assert (done.returncode, imports(made)) == (0, 0)


def test_a_moved_checkout_is_made_usable_again(made: CheckoutCopy) -> None:
    home = made.root
    made.root = home.rename(home.with_name("moved 搬家"))
    try:
        done = made.sh("bootstrap.sh", "--offline")
        assert (done.returncode, imports(made)) == (0, 0)
        assert (made.root / ".venv/agent-builder-stamp").read_text().splitlines()[-1] == str(made.root)
    finally:
        made.root = made.root.rename(home)


def test_offline_without_any_cache_fails_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    copy = CheckoutCopy(tmp_path, with_own_environment=True)
    failed = copy.sh("bootstrap.sh", "--offline")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("agent-builder: ")
    assert not (copy.root / ".venv").exists()


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--dev", "x"]])
def test_an_unknown_argument_is_refused_before_anything_happens(made: CheckoutCopy, arguments: list[str]) -> None:
    before = environment(made)
    refused = made.sh("bootstrap.sh", *arguments)
    assert (refused.returncode, refused.stderr.count("\n"), environment(made)) == (2, 1, before)


@pytest.mark.parametrize("script", ["bootstrap.sh", "start.sh", "stop.sh"])
def test_help_explains_the_arguments_and_exit_codes(made: CheckoutCopy, script: str) -> None:
    helped = made.sh(script, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert f"usage: ./{script}" in helped.stdout
    assert "exit: 0" in helped.stdout


def test_no_script_at_the_top_is_longer_than_forty_lines(made: CheckoutCopy) -> None:
    assert [each.name for each in made.root.glob("*.sh") if len(each.read_text().splitlines()) > 40] == []
