import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_builder.capsule import safe_open
from agent_builder.capsule.paths import FileRefused, parse_path
from agent_builder.capsule.safe_open import open_directory, open_file, read_file, text_of
from agent_builder.protocol.limits import FILE_BYTES
from tests.support.capability import put


@pytest.fixture(params=["openat2", "walk"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs with the kernel's openat2 and with the walk that stands in for it."""
    if request.param == "walk":

        def absent(parent: int, name: bytes) -> int:
            raise OSError(errno.ENOSYS, "no openat2")

        monkeypatch.setattr(safe_open, "_openat2", absent)
    place = tmp_path / "workspace"
    place.mkdir(mode=0o700)
    return place


def refusal(workspace: Path, path: str) -> str:
    with pytest.raises(FileRefused) as refused:
        read_file(workspace, parse_path(path))
    return refused.value.reason


def test_a_file_is_read_with_what_identifies_it(workspace: Path) -> None:
    target = put(workspace, "a/b/notes.md", "hello\n", 0o640)
    version, data = read_file(workspace, parse_path("a/b/notes.md"))
    found = target.stat()
    assert data == b"hello\n"
    assert (version.place, version.mode, version.bytes) == ((found.st_dev, found.st_ino), 0o640, 6)
    assert [inode for _, inode in version.chain] == [part.stat().st_ino for part in (workspace, workspace / "a", workspace / "a/b")]


def test_the_path_digest_changes_with_the_file_behind_the_path(workspace: Path) -> None:
    put(workspace, "a.md", "same")
    first, _ = read_file(workspace, parse_path("a.md"))
    put(workspace, "b.md", "same").replace(workspace / "a.md")
    second, _ = read_file(workspace, parse_path("a.md"))
    assert first.digest == second.digest
    assert first.path_digest != second.path_digest


@pytest.mark.parametrize("path", ["gone.md", "gone/x.md"])
def test_a_missing_file_is_refused(workspace: Path, path: str) -> None:
    assert refusal(workspace, path) == "missing"


def test_a_directory_is_not_a_file_and_a_file_not_a_directory(workspace: Path) -> None:
    put(workspace, "d/a.md", "x")
    assert refusal(workspace, "d") == "directory"
    assert refusal(workspace, "d/a.md/x") == "not_directory"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(workspace: Path, mode: int) -> None:
    put(workspace, "a.md", "x", mode)
    assert refusal(workspace, "a.md") == "mode"


def test_a_file_that_others_may_read_is_read(workspace: Path) -> None:
    put(workspace, "a.md", "x", 0o644)
    assert read_file(workspace, parse_path("a.md"))[1] == b"x"


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1644])
def test_a_file_with_special_bits_is_refused(workspace: Path, mode: int) -> None:
    put(workspace, "a.md", "x", mode)
    assert refusal(workspace, "a.md") == "mode"


def test_a_directory_that_others_may_write_is_refused(workspace: Path) -> None:
    put(workspace, "d/a.md", "x")
    (workspace / "d").chmod(0o770)
    assert refusal(workspace, "d/a.md") == "mode"
    (workspace / "d").chmod(0o700)
    workspace.chmod(0o707)
    assert refusal(workspace, "d/a.md") == "mode"


def test_what_belongs_to_another_user_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(workspace, "a.md", "x")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert refusal(workspace, "a.md") == "owner"


def test_one_mebibyte_is_read_and_one_byte_more_refused(workspace: Path) -> None:
    put(workspace, "a.txt", b"x" * FILE_BYTES)
    assert len(read_file(workspace, parse_path("a.txt"))[1]) == FILE_BYTES
    put(workspace, "b.txt", b"x" * (FILE_BYTES + 1))
    assert refusal(workspace, "b.txt") == "too_large"


def test_an_empty_file_is_read(workspace: Path) -> None:
    put(workspace, "a.txt", b"")
    assert read_file(workspace, parse_path("a.txt"))[1] == b""


@pytest.mark.parametrize("change", ["append", "overwrite", "truncate"])
def test_a_file_that_changes_while_it_is_read_is_refused(workspace: Path, change: str) -> None:
    target = put(workspace, "a.txt", b"one two three\n")
    path = parse_path("a.txt")
    with open_directory(workspace, ()) as parent, open_file(parent, path) as file:
        if change == "append":
            with target.open("ab") as outside:
                outside.write(b"!")
        elif change == "overwrite":
            with target.open("r+b") as outside:
                outside.write(b"ONE")
            os.utime(target, ns=(0, file.found.st_mtime_ns))
        else:
            os.truncate(target, 3)
        with pytest.raises(FileRefused) as refused:
            file.read()
    assert refused.value.reason == "changing"


def test_a_write_within_one_tick_of_the_clock_is_noticed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both time stamps are made to stand still, as they do for some milliseconds; only the bytes tell."""
    target = put(workspace, "a.txt", b"one two three\n")
    real = os.pread
    calls = 0

    def written_between_the_reads(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal calls
        calls += 1
        data = real(descriptor, size, offset)
        if calls == 1:
            with target.open("r+b") as outside:
                outside.write(b"ONE")
        return data

    monkeypatch.setattr(os, "pread", written_between_the_reads)
    monkeypatch.setattr(safe_open, "_changed", lambda before, after: False)
    assert refusal(workspace, "a.txt") == "changing"


@pytest.mark.parametrize(("data", "fits"), [("学点\r\n".encode(), True), (b"\xef\xbb\xbfx", True), (b"a\0b", False), (b"a\xff", False), (b"\xed\xa0\x80", False)])
def test_only_utf_8_without_nul_is_text(data: bytes, fits: bool) -> None:
    path = parse_path("a.txt")
    if fits:
        assert text_of(path, data).encode() == data
        return
    with pytest.raises(FileRefused) as refused:
        text_of(path, data)
    assert refused.value.reason == "not_text"


def test_no_descriptor_stays_open(workspace: Path) -> None:
    put(workspace, "a/b/c.txt", "x")
    put(workspace, "a/b/wide.txt", "x", 0o666)
    before = sorted(os.listdir("/proc/self/fd"))
    read_file(workspace, parse_path("a/b/c.txt"))
    for path in ("a/b/wide.txt", "a/b/gone", "a/gone/x", "a/b/c.txt/x"):
        refusal(workspace, path)
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("change", "reason"), [
    (lambda file: os.truncate(file, FILE_BYTES + 1), "too_large"), (lambda file: os.truncate(file, 1 << 16), "sparse"),
    (lambda file: file.chmod(0o666), "mode"), (lambda file: os.link(file, file.with_name("b.txt")), "links"),
])
def test_a_file_that_is_changed_before_it_is_opened_is_judged_as_it_is_then(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], reason: str
) -> None:
    target = put(workspace, "a.txt", b"one\n")
    real = safe_open._reopen

    def changed(look: int, shown: str) -> int:
        change(target)
        return real(look, shown)

    monkeypatch.setattr(safe_open, "_reopen", changed)
    with pytest.raises(FileRefused) as refused:
        read_file(workspace, parse_path("a.txt"))
    assert refused.value.reason == reason


def test_a_workspace_that_is_gone_or_a_link_is_refused(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "link").symlink_to(workspace)
    for place in (tmp_path / "gone", tmp_path / "link"):
        with pytest.raises(FileRefused) as refused:
            read_file(place, parse_path("a.txt"))
        assert refused.value.reason == "workspace"
