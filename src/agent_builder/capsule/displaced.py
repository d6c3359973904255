"""Judges a file that an exchange displaced: is it the version that was to be replaced, and can nobody write to it any more?"""

import errno
import fcntl
import os
import signal
import stat

from agent_builder.capsule.safe_open import FileVersion
from agent_builder.protocol.digest import digest_bytes

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_LEASES = (errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP)  # a file system without leases


def displaced_fault(directory: int, name: bytes, expected: FileVersion) -> str | None:
    """Why the displaced file is not exactly the expected version; None when it is. Raises OSError."""
    shown = expected.path.text
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) != expected.place:
        return f"{shown} was replaced by another file meanwhile"
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except PermissionError:
        return f"the mode of {shown} was changed meanwhile"
    try:
        if _open_for_writing(descriptor):
            return f"another program has {shown} open for writing"
        return _version_fault(descriptor, expected)
    finally:
        os.close(descriptor)


def _version_fault(descriptor: int, expected: FileVersion) -> str | None:
    shown = expected.path.text
    found = os.fstat(descriptor)
    if (found.st_dev, found.st_ino) != expected.place:
        return f"{shown} was replaced by another file meanwhile"
    if found.st_size != expected.bytes or content_digest(descriptor, expected.bytes) != expected.digest:
        return f"{shown} was changed meanwhile"
    if stat.S_IMODE(found.st_mode) != expected.mode:
        return f"the mode of {shown} was changed meanwhile"
    if found.st_nlink != 1:
        return f"{shown} got another hard link meanwhile"
    return None


def content_digest(descriptor: int, size: int) -> str:
    """Digest of the file's content, read at most one byte beyond `size`."""
    data = b""
    while len(data) <= size:
        part = os.pread(descriptor, size + 1 - len(data), len(data))
        if not part:
            break
        data += part
    return digest_bytes(data)


def _open_for_writing(descriptor: int) -> bool:
    """Takes a read lease, which the kernel refuses while anybody can write through an open descriptor or mapping. It ends
    with the descriptor. A break of the lease is announced by SIGURG, which is ignored by default; SIGIO would kill us."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return True
        if error.errno in _NO_LEASES:
            return False
        raise
    return False
