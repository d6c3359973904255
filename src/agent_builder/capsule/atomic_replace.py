"""Replaces or creates one file so that nobody ever sees half of it and no edit made outside is lost.

Writing in place would tear the file at a crash, and a plain rename over it would silently drop whatever somebody saved
since it was read. So the new text and the old file change places, and the old one is looked at before it goes:

1. The directory is walked to and must be the very one that was approved; the file in it must be the approved version.
2. The new text goes into a private file of mode 0600 in the same directory, under a reserved name (`new-`). It gets the
   old file's group, user attributes and, last, its mode; then fsync. Until then its rights are never wider: an access list
   that a directory gives to new files is taken off first, and a file that would differ in any other attribute is refused.
3. That file is renamed to `swap-<its inode>-<digest of the old text>-…`. From here on the name alone tells whoever finds
   it after a crash what it is: with that inode it is our new text, not yet exchanged; with that digest it is the old
   text, duly replaced; anything else is somebody's edit and must be put back (see leftovers.py).
4. `renameat2(RENAME_EXCHANGE)` swaps both names in one step. The target is at every moment the old or the new file, whole.
5. The displaced file is verified: same inode, mode and links, no program has it open for writing (a read lease would be
   refused), same content; and the path still leads here. This is where an edit between 1 and 4 shows.
6. Verified: the directory is fsynced and the displaced file removed. Not verified: both names are exchanged back, the new
   text is removed, and the answer is TargetChanged, as if nothing had happened.

A new file takes no one's place: `renameat2(RENAME_NOREPLACE)` fails where something is there by then.

When the way back fails or the disk refuses to sync after the exchange, nobody can tell what a crash would leave:
OutcomeUnknown. It is never tried again, and a displaced file that was not verified stays where it is.
"""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.displaced import displaced_fault
from agent_builder.capsule.paths import RESERVED_PREFIX, FileRefused, WorkspacePath
from agent_builder.capsule.safe_open import FileVersion, OpenDirectory, Place, open_directory, open_file
from agent_builder.sandbox.linux_calls import library_call

NEW, SWAP = f"{RESERVED_PREFIX}new-", f"{RESERVED_PREFIX}swap-"
_NOREPLACE, _EXCHANGE = 1, 2  # source: renameat2(2)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE = 0o600
_USER_ATTRIBUTES = "user."
_ACCESS_LIST = "system.posix_acl_access"
_LABELS = ("security.selinux", "security.SMACK64", "security.ima", "security.evm")  # set by the system, not by anybody's hand


class TargetChanged(Exception):
    """The target is not what was approved; it is as somebody else left it. `sentence` says what changed."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


class OutcomeUnknown(Exception):
    """The new text may or may not be in place; nothing may be repeated."""


@dataclass(frozen=True, slots=True)
class AbsentFile:
    """Proof that nothing was under a path, and which directory it would lie in. Made by `absent_file` only."""

    path: WorkspacePath
    chain: tuple[Place, ...]

    @property
    def path_digest(self) -> str:
        return FileVersion(self.path, self.chain, (0, 0), 0, 0, "").path_digest


def absent_file(workspace: Path, path: WorkspacePath) -> AbsentFile:
    """Raises FileRefused (`exists`, or what the directory is refused for)."""
    with open_directory(workspace, path.directory) as parent:
        if _exists(parent, path.name):
            raise FileRefused("exists", f"{path.text} exists already")
        return AbsentFile(path, parent.chain)


def check_replaceable(workspace: Path, expected: FileVersion) -> None:
    """Raises FileRefused when a replacement could not keep the file's attributes, TargetChanged when it is another version."""
    with _bound_parent(workspace, expected.path, expected.chain) as parent:
        _read_attributes(parent, expected)


def check_absent(workspace: Path, expected: AbsentFile) -> None:
    """Raises TargetChanged when something is there by now or the directory is another one."""
    with _bound_parent(workspace, expected.path, expected.chain) as parent:
        if _exists(parent, expected.path.name):
            raise TargetChanged(f"{expected.path.text} was created meanwhile")


def replace_file(workspace: Path, expected: FileVersion, data: bytes) -> None:
    """Puts `data` in the place of exactly the version `expected`, with its mode, group and user attributes.

    Raises TargetChanged, FileRefused or OSError when nothing was changed, and OutcomeUnknown."""
    with _bound_parent(workspace, expected.path, expected.chain) as parent:
        attributes = _read_attributes(parent, expected)
        name, inode = _write_new(parent.descriptor, data, attributes)
        try:
            name = _announce(parent.descriptor, name, inode, expected.digest)
            exchange_names(parent.descriptor, name, expected.path.name)
        except FileNotFoundError as error:
            _remove(parent.descriptor, name)
            raise TargetChanged(f"{expected.path.text} was removed meanwhile") from error
        except BaseException:
            _remove(parent.descriptor, name)
            raise
        _settle(workspace, parent, name, inode, expected)


def create_file(workspace: Path, expected: AbsentFile, data: bytes) -> None:
    """Creates the file with mode 0600. Raises TargetChanged, FileRefused or OSError when nothing was changed, and
    OutcomeUnknown."""
    with _bound_parent(workspace, expected.path, expected.chain) as parent:
        name, inode = _write_new(parent.descriptor, data, _Attributes(_PRIVATE, None, {}))
        try:
            publish_name(parent.descriptor, name, expected.path.name)
        except FileExistsError as error:
            _remove(parent.descriptor, name)
            raise TargetChanged(f"{expected.path.text} was created meanwhile") from error
        except BaseException:
            _remove(parent.descriptor, name)
            raise
        _settle_created(workspace, parent, inode, expected)


@dataclass(frozen=True, slots=True)
class _Attributes:
    mode: int
    group: int | None
    extended: dict[str, bytes]


@contextmanager
def _bound_parent(workspace: Path, path: WorkspacePath, chain: tuple[Place, ...]) -> Iterator[OpenDirectory]:
    """The directory of the path if it is the approved one. What is refused now was not when it was approved."""
    with ExitStack() as stack:
        try:
            parent = stack.enter_context(open_directory(workspace, path.directory))
        except FileRefused as refusal:
            raise TargetChanged(f"the way to {path.text} changed: {refusal.sentence}") from refusal
        if parent.chain != chain:
            raise TargetChanged(f"the directory of {path.text} is another one now")
        yield parent


def _read_attributes(parent: OpenDirectory, expected: FileVersion) -> _Attributes:
    try:
        with open_file(parent, expected.path) as file:
            found, _ = file.read()
            if found != expected:
                raise TargetChanged(_difference(found, expected))
            return _Attributes(expected.mode, file.found.st_gid, _user_attributes(file.descriptor, expected.path.text))
    except FileRefused as refusal:
        if refusal.reason == "attributes":
            raise
        raise TargetChanged(refusal.sentence) from refusal


def _difference(found: FileVersion, expected: FileVersion) -> str:
    shown = expected.path.text
    if found.digest != expected.digest:
        return f"{shown} was changed meanwhile"
    if found.mode != expected.mode:
        return f"the mode of {shown} was changed meanwhile"
    return f"{shown} is another file now"


def _user_attributes(descriptor: int, shown: str) -> dict[str, bytes]:
    names = [name for name in _listed_attributes(descriptor) if name not in _LABELS]
    foreign = [name for name in names if not name.startswith(_USER_ATTRIBUTES)]
    if foreign:
        raise FileRefused("attributes", f"{shown} has the attribute {foreign[0]}, which a replacement would lose")
    return {name: os.getxattr(descriptor, name) for name in names}


def _listed_attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise


def _write_new(directory: int, data: bytes, attributes: _Attributes) -> tuple[bytes, int]:
    """The reserved name and inode of a complete, synced private file. Nothing is left when it fails."""
    name = f"{NEW}{secrets.token_hex(8)}".encode()
    descriptor = os.open(name, _CREATE, _PRIVATE, dir_fd=directory)
    try:
        _fill(descriptor, data)
        _remove_access_list(descriptor)
        _apply(descriptor, attributes)
        _check_attributes(descriptor, attributes)
        os.fsync(descriptor)
        return name, os.fstat(descriptor).st_ino
    except BaseException:
        _remove(directory, name)
        raise
    finally:
        os.close(descriptor)


def _fill(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _remove_access_list(descriptor: int) -> None:
    """A directory's default access list would let others in as soon as the mode is set. One that cannot be taken off is found
    by `_check_attributes`."""
    with suppress(OSError):
        os.removexattr(descriptor, _ACCESS_LIST)


def _apply(descriptor: int, attributes: _Attributes) -> None:
    for name, value in attributes.extended.items():
        os.setxattr(descriptor, name, value)
    if attributes.group is not None and os.fstat(descriptor).st_gid != attributes.group:
        os.fchown(descriptor, -1, attributes.group)
    os.fchmod(descriptor, attributes.mode)


def _check_attributes(descriptor: int, attributes: _Attributes) -> None:
    """Raises FileRefused when the file system gave the new file what the old one has not."""
    added = sorted(set(_listed_attributes(descriptor)) - set(_LABELS) - set(attributes.extended))
    if added:
        raise FileRefused("attributes", f"a new file in this directory gets the attribute {added[0]}")


def _announce(directory: int, name: bytes, inode: int, digest: str) -> bytes:
    announced = f"{SWAP}{inode}-{digest}-{secrets.token_hex(8)}".encode()
    _rename(directory, name, announced, _NOREPLACE)
    return announced


def exchange_names(directory: int, first: bytes, second: bytes) -> None:
    _rename(directory, first, second, _EXCHANGE)


def publish_name(directory: int, name: bytes, target: bytes) -> None:
    _rename(directory, name, target, _NOREPLACE)


def _rename(directory: int, old: bytes, new: bytes, flags: int) -> None:
    library_call("renameat2", directory, ctypes.c_char_p(old), directory, ctypes.c_char_p(new), flags)


def _settle(workspace: Path, parent: OpenDirectory, name: bytes, inode: int, expected: FileVersion) -> None:
    try:
        fault = _verify(workspace, parent, name, expected)
        if fault is None:
            _sync(parent.descriptor)
    except OSError as error:
        raise OutcomeUnknown(f"{expected.path.text}: {os.strerror(error.errno or 0)}") from error
    if fault is None:
        _forget(parent.descriptor, name)
        return
    _exchange_back(parent.descriptor, name, expected.path.name, inode)
    raise TargetChanged(fault)


def _verify(workspace: Path, parent: OpenDirectory, name: bytes, expected: FileVersion) -> str | None:
    return displaced_fault(parent.descriptor, name, expected) or _way_fault(workspace, expected.path, parent.chain)


def _way_fault(workspace: Path, path: WorkspacePath, chain: tuple[Place, ...]) -> str | None:
    """A directory can be moved while it is held open; then the new text would lie where nobody approved it."""
    try:
        with open_directory(workspace, path.directory) as parent:
            return None if parent.chain == chain else f"the directory of {path.text} was moved meanwhile"
    except FileRefused as refusal:
        return f"the way to {path.text} changed: {refusal.sentence}"


def _exchange_back(directory: int, name: bytes, target: bytes, inode: int) -> None:
    """Our text must be what comes back under the reserved name: if it is something else, the target was replaced twice,
    and then the newest stays in place and the one before it is kept under its reserved name."""
    try:
        exchange_names(directory, name, target)
        if _inode(directory, name) != inode:
            exchange_names(directory, name, target)
            raise OutcomeUnknown("the file was replaced again while a change was taken back")
        _sync(directory)
    except OSError as error:
        raise OutcomeUnknown(f"a change could not be taken back: {os.strerror(error.errno or 0)}") from error
    _forget(directory, name)


def _settle_created(workspace: Path, parent: OpenDirectory, inode: int, expected: AbsentFile) -> None:
    try:
        fault = _way_fault(workspace, expected.path, parent.chain)
        if fault is None and _inode(parent.descriptor, expected.path.name) != inode:
            fault = f"{expected.path.text} was replaced meanwhile"
        elif fault is not None and _inode(parent.descriptor, expected.path.name) == inode:
            _remove(parent.descriptor, expected.path.name)
        _sync(parent.descriptor)
    except OSError as error:
        raise OutcomeUnknown(f"{expected.path.text}: {os.strerror(error.errno or 0)}") from error
    if fault is not None:
        raise TargetChanged(fault)


def _inode(directory: int, name: bytes) -> int:
    return os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino


def _exists(parent: OpenDirectory, name: bytes) -> bool:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=parent.descriptor, follow_symlinks=False).st_mode) != 0
    except FileNotFoundError:
        return False


def _sync(directory: int) -> None:
    os.fsync(directory)


def _forget(directory: int, name: bytes) -> None:
    """Removes a file that is needed no more. The outcome is proven; what cannot be removed is cleared at the next load."""
    with suppress(OSError):
        _remove(directory, name)


def _remove(directory: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
