import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_builder.capsule import atomic_replace
from agent_builder.capsule.atomic_replace import (
    AbsentFile,
    OutcomeUnknown,
    TargetChanged,
    absent_file,
    check_absent,
    check_replaceable,
    create_file,
    replace_file,
)
from agent_builder.capsule.paths import FileRefused, WorkspacePath, parse_path
from agent_builder.capsule.safe_open import FileVersion, read_file
from tests.support.capability import give_access_list, put

PATH = parse_path("d/a.txt")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    put(place, "d/a.txt", "old\n")
    return place


def version(workspace: Path, path: WorkspacePath = PATH) -> FileVersion:
    return read_file(workspace, path)[0]


def names(workspace: Path) -> list[str]:
    return sorted(os.listdir(workspace / "d"))


@pytest.fixture
def at_exchange(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Runs something outside between the last check and the first exchange."""

    def arm(action: Callable[[], object]) -> None:
        real, done = atomic_replace.exchange_names, []

        def exchange(directory: int, first: bytes, second: bytes) -> None:
            if not done:
                done.append(action())
            real(directory, first, second)

        monkeypatch.setattr(atomic_replace, "exchange_names", exchange)

    return arm


def test_a_file_is_replaced_and_nothing_else_is_left(workspace: Path) -> None:
    replace_file(workspace, version(workspace), b"new\n")
    assert (workspace / "d/a.txt").read_bytes() == b"new\n"
    assert names(workspace) == ["a.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444, 0o400])
def test_the_mode_is_preserved(workspace: Path, mode: int) -> None:
    (workspace / "d/a.txt").chmod(mode)
    replace_file(workspace, version(workspace), b"new\n")
    assert stat.S_IMODE((workspace / "d/a.txt").stat().st_mode) == mode


def test_the_private_file_never_has_wider_rights_than_the_target(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "d/a.txt").chmod(0o640)
    seen: list[int] = []
    real = atomic_replace._fill

    def fill(descriptor: int, data: bytes) -> None:
        real(descriptor, data)
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))

    monkeypatch.setattr(atomic_replace, "_fill", fill)
    replace_file(workspace, version(workspace), b"new\n")
    assert seen == [0o600]


def test_user_attributes_are_preserved(workspace: Path) -> None:
    os.setxattr(workspace / "d/a.txt", "user.note", b"keep me")
    replace_file(workspace, version(workspace), b"new\n")
    assert os.getxattr(workspace / "d/a.txt", "user.note") == b"keep me"


def test_an_attribute_that_would_be_lost_refuses_the_change(workspace: Path) -> None:
    give_access_list(workspace / "d/a.txt")
    bound = version(workspace)
    for attempt in (lambda: check_replaceable(workspace, bound), lambda: replace_file(workspace, bound, b"new\n")):
        with pytest.raises(FileRefused) as refused:
            attempt()
        assert refused.value.reason == "attributes"
    assert (workspace / "d/a.txt").read_bytes() == b"old\n"


@pytest.mark.parametrize("mode", [0o640, 0o600])
def test_a_directory_that_gives_new_files_an_access_list_lets_nobody_into_a_replaced_one(workspace: Path, mode: int) -> None:
    (workspace / "d/a.txt").chmod(mode)
    give_access_list(workspace / "d", "default")
    replace_file(workspace, version(workspace), b"new\n")
    target = workspace / "d/a.txt"
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"new\n", mode)
    assert "system.posix_acl_access" not in os.listxattr(target)
    check_replaceable(workspace, version(workspace))


def test_a_new_file_is_private_also_where_a_directory_gives_an_access_list(workspace: Path) -> None:
    give_access_list(workspace / "d", "default")
    create_file(workspace, absent_file(workspace, parse_path("d/n.txt")), b"new\n")
    target = workspace / "d/n.txt"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert "system.posix_acl_access" not in os.listxattr(target)


def test_a_file_that_would_get_an_attribute_it_has_not_is_not_replaced(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that gives new files what cannot be taken off."""
    real = atomic_replace._fill

    def fill(descriptor: int, data: bytes) -> None:
        real(descriptor, data)
        os.setxattr(descriptor, "user.given", b"x")

    monkeypatch.setattr(atomic_replace, "_fill", fill)
    with pytest.raises(FileRefused) as refused:
        replace_file(workspace, version(workspace), b"new\n")
    assert refused.value.reason == "attributes"
    assert (workspace / "d/a.txt").read_bytes() == b"old\n"
    assert names(workspace) == ["a.txt"]


def test_the_group_is_preserved(workspace: Path) -> None:
    group = 12345 if os.geteuid() == 0 else os.getgroups()[-1]
    os.chown(workspace / "d/a.txt", -1, group)
    replace_file(workspace, version(workspace), b"new\n")
    assert (workspace / "d/a.txt").stat().st_gid == group


CHANGES: dict[str, Callable[[Path], object]] = {
    "another text": lambda file: file.write_bytes(b"mine\n"),
    "renamed over": lambda file: put(file.parent, "t", "mine\n").replace(file),
    "renamed over with the same text": lambda file: put(file.parent, "t", "old\n").replace(file),
    "truncated": lambda file: os.truncate(file, 0),
    "appended": lambda file: file.write_bytes(file.read_bytes() + b"!"),
    "removed": lambda file: file.unlink(),
    "mode": lambda file: file.chmod(0o400),
    "linked": lambda file: os.link(file, file.with_name("second")),
    "replaced by a link": lambda file: (file.unlink(), file.symlink_to("/etc/hostname")),
    "directory replaced": lambda file: (file.parent.rename(file.parent.with_name("d2")), put(file.parent.parent, "d/a.txt", "old\n")),
    "directory replaced by a link": lambda file: (
        file.parent.rename(file.parent.with_name("d2")), file.parent.symlink_to(file.parent.with_name("d2"))
    ),
}


def picture(place: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory that is not a reserved name."""
    found: dict[str, tuple[int, bytes]] = {}
    for directory, folders, files in os.walk(place):
        for name in [*folders, *files]:
            path = Path(directory, name)
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(place))] = (path.lstat().st_mode, content)
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_a_target_that_changed_since_it_was_approved_stays_as_it_is(workspace: Path, change: str) -> None:
    bound = version(workspace)
    CHANGES[change](workspace / "d/a.txt")
    before = picture(workspace)
    for attempt in (lambda: check_replaceable(workspace, bound), lambda: replace_file(workspace, bound, b"new\n")):
        with pytest.raises(TargetChanged):
            attempt()
    assert picture(workspace) == before


@pytest.mark.parametrize("change", CHANGES)
def test_an_edit_in_the_last_moment_wins(
    workspace: Path, change: str, at_exchange: Callable[[Callable[[], object]], None]
) -> None:
    """What happens between the check and the exchange is exchanged back."""
    bound = version(workspace)
    after: dict[str, tuple[int, bytes]] = {}

    def outside() -> None:
        CHANGES[change](workspace / "d/a.txt")
        after.update(picture(workspace))

    at_exchange(outside)
    with pytest.raises(TargetChanged):
        replace_file(workspace, bound, b"new\n")
    expected = {name: entry for name, entry in after.items() if ".agent-builder-" not in name}
    assert picture(workspace) == expected


def test_a_file_that_another_program_has_open_for_writing_is_not_replaced(workspace: Path) -> None:
    bound = version(workspace)
    with (workspace / "d/a.txt").open("r+b") as editor:
        with pytest.raises(TargetChanged, match="open for writing"):
            replace_file(workspace, bound, b"new\n")
        editor.write(b"mine")
    assert (workspace / "d/a.txt").read_bytes() == b"mine"
    assert names(workspace) == ["a.txt"]


def test_a_file_that_another_program_reads_is_replaced(workspace: Path) -> None:
    bound = version(workspace)
    with (workspace / "d/a.txt").open("rb") as reader:
        replace_file(workspace, bound, b"new\n")
        assert reader.read() == b"old\n"


def test_no_lease_is_kept(workspace: Path) -> None:
    replace_file(workspace, version(workspace), b"new\n")
    with (workspace / "d/a.txt").open("rb") as file:
        assert fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_UNLCK


def test_a_target_replaced_twice_keeps_the_newest_and_is_reported_as_unknown(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = version(workspace)
    real = atomic_replace.exchange_names
    edits = iter([b"first\n", b"second\n"])

    def exchange(directory: int, first: bytes, second: bytes) -> None:
        text = next(edits, None)
        if text is not None:
            put(workspace, "d/t", text).replace(workspace / "d/a.txt")
        real(directory, first, second)

    monkeypatch.setattr(atomic_replace, "exchange_names", exchange)
    with pytest.raises(OutcomeUnknown):
        replace_file(workspace, bound, b"new\n")
    assert (workspace / "d/a.txt").read_bytes() == b"second\n"
    (kept,) = [name for name in names(workspace) if name.startswith(".agent-builder-swap-")]
    assert (workspace / "d" / kept).read_bytes() == b"first\n"


def test_a_disk_that_does_not_sync_leaves_the_outcome_unknown(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = version(workspace)

    def broken(directory: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(atomic_replace, "_sync", broken)
    with pytest.raises(OutcomeUnknown):
        replace_file(workspace, bound, b"new\n")
    with pytest.raises(OutcomeUnknown):
        create_file(workspace, absent_file(workspace, parse_path("d/b.txt")), b"new\n")


def test_a_full_disk_changes_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = version(workspace)

    def full(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_replace, "_fill", full)
    before = picture(workspace)
    with pytest.raises(OSError, match="No space"):
        replace_file(workspace, bound, b"new\n")
    assert picture(workspace) == before


def absent(workspace: Path) -> AbsentFile:
    return absent_file(workspace, parse_path("d/b.txt"))


def test_a_new_file_is_private_and_nothing_else_is_left(workspace: Path) -> None:
    create_file(workspace, absent(workspace), b"hello\n")
    assert (workspace / "d/b.txt").read_bytes() == b"hello\n"
    assert stat.S_IMODE((workspace / "d/b.txt").stat().st_mode) == 0o600
    assert names(workspace) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("kind", ["file", "dangling link", "directory"])
def test_a_new_file_takes_no_ones_place(workspace: Path, kind: str) -> None:
    bound, target = absent(workspace), workspace / "d/b.txt"
    make = {"file": lambda: put(workspace, "d/b.txt", "mine"), "dangling link": lambda: target.symlink_to("gone"), "directory": target.mkdir}
    make[kind]()
    before = picture(workspace)
    for attempt in (lambda: check_absent(workspace, bound), lambda: create_file(workspace, bound, b"new\n")):
        with pytest.raises(TargetChanged):
            attempt()
    with pytest.raises(FileRefused) as refused:
        absent(workspace)
    assert refused.value.reason == "exists"
    assert picture(workspace) == before


def test_a_new_file_is_not_made_in_another_directory_than_the_approved_one(workspace: Path) -> None:
    bound = absent(workspace)
    (workspace / "d").rename(workspace / "d2")
    (workspace / "d").mkdir(mode=0o700)
    with pytest.raises(TargetChanged):
        create_file(workspace, bound, b"new\n")
    assert not (workspace / "d/b.txt").exists()
    assert not (workspace / "d2/b.txt").exists()


def test_a_new_file_in_a_directory_that_is_moved_away_in_the_last_moment_is_taken_back(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, real = absent(workspace), atomic_replace.publish_name

    def publish(directory: int, name: bytes, target: bytes) -> None:
        (workspace / "d").rename(workspace.parent / "elsewhere")
        real(directory, name, target)

    monkeypatch.setattr(atomic_replace, "publish_name", publish)
    with pytest.raises(TargetChanged):
        create_file(workspace, bound, b"new\n")
    assert sorted(os.listdir(workspace.parent / "elsewhere")) == ["a.txt"]


def test_no_descriptor_stays_open(workspace: Path) -> None:
    bound = version(workspace)
    before = sorted(os.listdir("/proc/self/fd"))
    replace_file(workspace, bound, b"new\n")
    with pytest.raises(TargetChanged):
        replace_file(workspace, bound, b"newer\n")
    create_file(workspace, absent(workspace), b"x")
    assert sorted(os.listdir("/proc/self/fd")) == before
