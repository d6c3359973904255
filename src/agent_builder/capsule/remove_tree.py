"""Removes a directory with all in it, also one that is sealed: where its owner may not write."""

import os
import shutil
from pathlib import Path

_DIRECTORY_MODE = 0o700


def remove_tree(path: Path) -> None:
    """Nothing there is fine; a link is removed, never followed. Blocks."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    if path.exists():
        _open_up(path)
        shutil.rmtree(path)


def _open_up(path: Path) -> None:
    """Each directory before it is listed; `walk` does not follow links and comes to a directory after its parent."""
    path.chmod(_DIRECTORY_MODE)
    for parent, names, _ in os.walk(path):
        for name in names:
            directory = Path(parent, name)
            if not directory.is_symlink():
                directory.chmod(_DIRECTORY_MODE)
