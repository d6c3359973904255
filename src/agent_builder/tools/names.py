"""The existing names that go with a path that cannot be used, so that a model that invented one can choose a real one."""

import difflib
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from agent_builder.capsule.paths import FileRefused
from agent_builder.capsule.walk import Walk
from agent_builder.protocol.limits import NAMES_COMPARED, NAMES_SHOWN_BYTES

_ALIKE = 3


def files_here(workspace: Path, path: str, expired: Callable[[], bool]) -> str:
    """The files that exist, those first that `path` may have meant. Blocking: walks the workspace."""
    return _listed("files", path, _existing(workspace, expired, directories=False))


def directories_here(workspace: Path, path: str, expired: Callable[[], bool]) -> str:
    """The directories that exist, the workspace itself as `.`. Blocking."""
    return _listed("directories", path, [".", *_existing(workspace, expired, directories=True)])


def _listed(kind: str, path: str, names: list[str]) -> str:
    if not names:
        return "the workspace is empty"
    alike = _alike(path, names)
    shown = _within([*alike, *(name for name in names if name not in alike)])
    more = "" if len(shown) == len(names) else ", …"
    return f"{kind} here are: {', '.join(shown)}{more}"


def _existing(workspace: Path, expired: Callable[[], bool], *, directories: bool) -> list[str]:
    walk = Walk(workspace, expired)
    try:
        found = [one for one in islice(walk.below(), NAMES_COMPARED) if one.refusal is None]
    except FileRefused:
        return []
    return [one.path.text for one in found if one.directory == directories]


def _alike(path: str, names: list[str]) -> list[str]:
    """Files of the same name elsewhere first, then of the same name with another ending, then similar paths."""
    last = _last(path)
    same = [name for name in names if _last(name) == last]
    ending = [name for name in names if _stem(_last(name)) == _stem(last)]
    return list(dict.fromkeys([*same, *ending, *difflib.get_close_matches(path, names, _ALIKE)]))


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1].lower()


def _stem(name: str) -> str:
    return name.rsplit(".", 1)[0] or name


def _within(names: list[str]) -> list[str]:
    shown, left = [], NAMES_SHOWN_BYTES
    for name in names:
        left -= len(name.encode()) + 2
        if left < 0:
            break
        shown.append(name)
    return shown
