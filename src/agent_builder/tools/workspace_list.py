"""What the operator's page shows of a workspace: paths to attach, and one file as a download."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_builder.capsule.paths import FileRefused, parse_path
from agent_builder.capsule.safe_open import open_file, read_file, text_of
from agent_builder.capsule.walk import Found, Walk
from agent_builder.protocol.errors import InvalidRequest, NotFound
from agent_builder.protocol.limits import SEARCH_READ_BYTES, WORKSPACE_LIST


@dataclass(frozen=True, slots=True)
class WorkspaceItem:
    """`reason` says why a file cannot be attached, `reason_code` the same as the word of a FileRefused."""

    path: str
    bytes: int
    attachable: bool
    reason: str | None
    reason_code: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceListing:
    """`truncated`: there are more files than shown or looked at."""

    items: tuple[WorkspaceItem, ...]
    truncated: bool


def list_workspace(workspace: Path, prefix: str, limit: int, expired: Callable[[], bool]) -> WorkspaceListing:
    """The files whose path begins with `prefix`, in path order, at most `limit` and WORKSPACE_LIST. Blocking; `expired`
    tells when the search may take no longer. Raises InvalidRequest with what is wrong with the workspace."""
    try:
        return _listed(workspace, prefix, min(limit, WORKSPACE_LIST), expired)
    except FileRefused as refusal:
        raise InvalidRequest(f"The workspace cannot be listed: {refusal.sentence}.") from refusal


def open_download(workspace: Path, path: str) -> bytes:
    """One file's bytes, at most FILE_BYTES. Blocking. Raises NotFound, or InvalidRequest with the reason."""
    try:
        _, data = read_file(workspace, parse_path(path))
    except FileRefused as refusal:
        if refusal.reason == "missing":
            raise NotFound from refusal
        raise InvalidRequest(f"This file cannot be downloaded: {refusal.sentence}.") from refusal
    return data


def _listed(workspace: Path, prefix: str, most: int, expired: Callable[[], bool]) -> WorkspaceListing:
    walk = Walk(workspace, expired)
    items: list[WorkspaceItem] = []
    left = SEARCH_READ_BYTES
    for found in walk.below():
        if found.directory or not found.path.text.startswith(prefix):
            continue
        if len(items) == most:
            return WorkspaceListing(tuple(items), truncated=True)
        left -= found.bytes
        items.append(_item(found, look_inside=left >= 0))
    return WorkspaceListing(tuple(items), truncated=bool(walk.truncated))


def _item(found: Found, look_inside: bool) -> WorkspaceItem:
    """A file is read to see whether it is text, as long as the bytes of one search last."""
    refusal = found.refusal
    if refusal is None and look_inside:
        try:
            with open_file(found.parent, found.path) as file:
                text_of(found.path, file.read()[1])
        except FileRefused as inside:
            refusal = inside
    if refusal is None:
        return WorkspaceItem(found.path.text, found.bytes, attachable=True, reason=None)
    return WorkspaceItem(found.path.text, found.bytes, attachable=False, reason=refusal.sentence, reason_code=refusal.reason)
