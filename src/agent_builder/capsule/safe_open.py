"""Opens files of a workspace so that nothing outside of it can be reached, whatever somebody swaps meanwhile.

A path is walked from a descriptor of the workspace, one component a step. Each step is `openat2` with RESOLVE_BENEATH,
NO_SYMLINKS, NO_MAGICLINKS and NO_XDEV; where the kernel lacks it, an O_NOFOLLOW open and a comparison of mount ids do the
same. What a step opened is judged by `fstat` of the descriptor, so there is no moment between check and use: a name that
is swapped afterwards leads elsewhere, but the descriptor does not. Devices and FIFOs are never opened, only looked at
(O_PATH); a file is opened for reading after its kind is known.
"""

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.paths import FileRefused, WorkspacePath
from agent_builder.protocol.digest import digest_bytes, digest_of
from agent_builder.protocol.limits import FILE_BYTES, OPEN_RETRIES
from agent_builder.sandbox.linux_calls import system_call

_RESOLVE = 0x01 | 0x02 | 0x04 | 0x08  # NO_XDEV | NO_MAGICLINKS | NO_SYMLINKS | BENEATH, source: linux/openat2.h
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

Place = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class OpenDirectory:
    """A directory of the workspace, open for reading. `chain` names each directory from the workspace down to this one."""

    parts: tuple[str, ...]
    descriptor: int
    chain: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What exactly was found under a path: where it is (`chain`, `place`), its mode bits and its content's digest."""

    path: WorkspacePath
    chain: tuple[Place, ...]
    place: Place
    mode: int
    bytes: int
    digest: str

    @property
    def path_digest(self) -> str:
        """Names the path and every directory and file that it led through."""
        return digest_of([self.path.text, list(self.chain), self.place])


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """Proof that a path led, without links, to a file that the tools may read. Holds it open; made by `open_file` only."""

    path: WorkspacePath
    descriptor: int
    chain: tuple[Place, ...]
    found: os.stat_result

    def read(self) -> tuple[FileVersion, bytes]:
        """The whole file. Raises FileRefused (`changing`) when it was written meanwhile."""
        data = _read_all(self.descriptor, self.found.st_size)
        # Time stamps tick more coarsely than a write takes, so that they alone would miss one.
        again = _read_all(self.descriptor, self.found.st_size)
        if data != again or len(data) != self.found.st_size or _changed(self.found, os.fstat(self.descriptor)):
            raise FileRefused("changing", f"{self.path.text} was changed while it was read; try again")
        return self.version(digest_bytes(data)), data

    def version(self, digest: str) -> FileVersion:
        place = (self.found.st_dev, self.found.st_ino)
        return FileVersion(self.path, self.chain, place, stat.S_IMODE(self.found.st_mode), self.found.st_size, digest)


def read_file(workspace: Path, path: WorkspacePath, most_bytes: int = FILE_BYTES) -> tuple[FileVersion, bytes]:
    """Opens, checks and reads one file of at most so many bytes. Raises FileRefused."""
    with open_directory(workspace, path.directory) as parent, open_file(parent, path, most_bytes) as file:
        return file.read()


def text_of(path: WorkspacePath, data: bytes) -> str:
    """The file's text, byte for byte. Raises FileRefused (`not_text`)."""
    if b"\0" in data:
        raise FileRefused("not_text", f"{path.text} is a binary file (it has NUL bytes)")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileRefused("not_text", f"{path.text} is not UTF-8 text (byte {error.start})") from error


@contextmanager
def open_directory(workspace: Path, parts: tuple[str, ...]) -> Iterator[OpenDirectory]:
    """Walks from the workspace to one of its directories. Raises FileRefused, `workspace` where that itself cannot be opened."""
    try:
        descriptor = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise FileRefused("workspace", f"the workspace cannot be opened: {os.strerror(error.errno or 0)}") from error
    try:
        _check_directory(os.fstat(descriptor), ())
        directory = OpenDirectory((), descriptor, (_place(os.fstat(descriptor)),))
        for part in parts:
            directory = _enter(directory, part)
            os.close(descriptor)
            descriptor = directory.descriptor
        yield directory
    finally:
        os.close(descriptor)


@contextmanager
def open_subdirectory(parent: OpenDirectory, name: str) -> Iterator[OpenDirectory]:
    """One step down from an open directory. Raises FileRefused."""
    directory = _enter(parent, name)
    try:
        yield directory
    finally:
        os.close(directory.descriptor)


@contextmanager
def open_file(parent: OpenDirectory, path: WorkspacePath, most_bytes: int = FILE_BYTES) -> Iterator[WorkspaceFile]:
    """The last step: a regular file with all the promises of `check_file`. Raises FileRefused."""
    look = _step(parent.descriptor, path.name, path.text)
    try:
        found = os.fstat(look)
        check_file(found, path.text, most_bytes)
        descriptor = _reopen(look, path.text)
    finally:
        os.close(look)
    try:
        found = os.fstat(descriptor)  # it may have grown since it was looked at
        check_file(found, path.text, most_bytes)
        _check_whole(descriptor, found.st_size, path.text)
        yield WorkspaceFile(path, descriptor, parent.chain, found)
    finally:
        os.close(descriptor)


def check_file(found: os.stat_result, shown: str, most_bytes: int = FILE_BYTES) -> None:
    """Raises FileRefused unless this is a regular file of ours, with one link, no special mode bits, writable for nobody
    else, and at most so long."""
    if stat.S_ISLNK(found.st_mode):
        raise FileRefused("symlink", f"{shown} is a symbolic link; links are not followed")
    if stat.S_ISDIR(found.st_mode):
        raise FileRefused("directory", f"{shown} is a directory, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused("not_regular", f"{shown} is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no regular file')}, not a regular file")
    if found.st_uid != os.geteuid():
        raise FileRefused("owner", f"{shown} belongs to another user")
    if found.st_nlink != 1:
        raise FileRefused("links", f"{shown} has {found.st_nlink} hard links; only a file with one is used")
    if found.st_mode & _OTHERS_WRITE:
        raise FileRefused("mode", f"others may write {shown}; the operator can run: chmod go-w {shown}")
    if found.st_mode & _SPECIAL_BITS:
        raise FileRefused("mode", f"{shown} has a set-user, set-group or sticky bit")
    if found.st_size > most_bytes:
        raise FileRefused("too_large", f"{shown} has {found.st_size} bytes; at most {most_bytes} can be used")


def _enter(parent: OpenDirectory, name: str) -> OpenDirectory:
    parts = (*parent.parts, name)
    shown = "/".join(parts)
    look = _step(parent.descriptor, name.encode(), shown)
    try:
        found = os.fstat(look)
        _check_directory(found, parts)
        try:
            descriptor = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=look)
        except PermissionError as error:
            raise FileRefused("access", f"{shown} cannot be opened; its mode does not let its owner in") from error
    finally:
        os.close(look)
    return OpenDirectory(parts, descriptor, (*parent.chain, _place(found)))


def _check_directory(found: os.stat_result, parts: tuple[str, ...]) -> None:
    shown = "/".join(parts) or "the workspace"
    if stat.S_ISLNK(found.st_mode):
        raise FileRefused("symlink", f"{shown} is a symbolic link; links are not followed")
    if not stat.S_ISDIR(found.st_mode):
        raise FileRefused("not_directory", f"{shown} is not a directory")
    if found.st_uid != os.geteuid():
        raise FileRefused("owner", f"the directory {shown} belongs to another user")
    if found.st_mode & _OTHERS_WRITE:
        way = f"the operator can run: chmod go-w {shown}" if parts else "the operator can run there: chmod go-w ."
        raise FileRefused("mode", f"others may write into {shown}; {way}")


def _reopen(look: int, shown: str) -> int:
    """Opens what `look` points at, not what its name points at by now."""
    try:
        return os.open(f"/proc/self/fd/{look}", _READ)
    except PermissionError as error:
        raise FileRefused("access", f"{shown} cannot be read; its mode does not let its owner read") from error


def _check_whole(descriptor: int, size: int, shown: str) -> None:
    if size and os.lseek(descriptor, 0, os.SEEK_HOLE) < size:
        raise FileRefused("sparse", f"{shown} is a sparse file (it has a hole)")


def _read_all(descriptor: int, size: int) -> bytes:
    """At most one byte more than `size`, so that growth is seen and endless files end."""
    data = b""
    while len(data) <= size:
        part = os.pread(descriptor, size + 1 - len(data), len(data))
        if not part:
            break
        data += part
    return data


def _changed(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) != (after.st_size, after.st_mtime_ns, after.st_ctime_ns)


def _place(found: os.stat_result) -> Place:
    return found.st_dev, found.st_ino


def _step(parent: int, name: bytes, shown: str) -> int:
    """An O_PATH descriptor of one component; a link is opened as itself and must be refused by the caller."""
    try:
        return _look(parent, name)
    except FileNotFoundError as error:
        raise FileRefused("missing", f"there is no {shown}") from error
    except OSError as error:
        raise _step_refusal(error, shown) from error


def _step_refusal(error: OSError, shown: str) -> FileRefused:
    if error.errno == errno.ELOOP:
        return FileRefused("symlink", f"{shown} is a symbolic link; links are not followed")
    if error.errno == errno.EXDEV:
        return FileRefused("device", f"{shown} lies on another file system")
    if error.errno == errno.EAGAIN:
        return FileRefused("changing", f"{shown} is being moved; try again")
    if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG):
        return FileRefused("path", f"{shown} does not fit this file system")
    return FileRefused("access", f"{shown} cannot be opened: {os.strerror(error.errno or 0)}")


def _look(parent: int, name: bytes) -> int:
    for attempt in range(OPEN_RETRIES):
        try:
            return _openat2(parent, name)
        except OSError as error:
            if error.errno == errno.ENOSYS:
                return _open_beneath(parent, name)
            if error.errno != errno.EAGAIN or attempt == OPEN_RETRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _openat2(parent: int, name: bytes) -> int:
    """`struct open_how { u64 flags, mode, resolve; }`, source: openat2(2)."""
    how = struct.pack("=QQQ", _LOOK, 0, _RESOLVE)
    return system_call("openat2", parent, ctypes.c_char_p(name), ctypes.c_char_p(how), len(how))


def _open_beneath(parent: int, name: bytes) -> int:
    """The same step without openat2: `name` is one component, so only links and mounts could lead outside."""
    descriptor = os.open(name, _LOOK, dir_fd=parent)
    if _mount_id(descriptor) != _mount_id(parent):
        os.close(descriptor)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return descriptor


def _mount_id(descriptor: int) -> str:
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as facts:
        return next(line.split()[1] for line in facts if line.startswith("mnt_id:"))
