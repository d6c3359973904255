"""Files and directories that nobody but their owner may reach, written whole and brought to the disk.

Directories have mode 0700 and files 0600 whatever the umask. All of this blocks and raises OSError.
"""

import os
from pathlib import Path

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


def make_private_directory(path: Path) -> None:
    """One that is there already becomes private."""
    path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    path.chmod(PRIVATE_DIRECTORY)


def write_private(path: Path, content: bytes) -> None:
    """A new file: one that is there already is never written to. Not synced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, PRIVATE_FILE)
        file.write(content)


def replace_private(target: Path, content: bytes) -> None:
    """The old content or the new, whole, whatever happens meanwhile; `partial_of` names what a crash may leave."""
    partial = partial_of(target)
    partial.unlink(missing_ok=True)
    write_private(partial, content)
    sync(partial)
    partial.replace(target)
    sync(target.parent)


def partial_of(target: Path) -> Path:
    return target.with_name(target.name + ".tmp")


def sync(path: Path) -> None:
    """A file's content, or a directory's names."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
