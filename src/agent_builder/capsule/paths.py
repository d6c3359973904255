"""WorkspacePath: the one spelling of a path that the tools accept, and FileRefused, the answer for everything else."""

import unicodedata
from dataclasses import dataclass

from agent_builder.protocol.limits import NAME_BYTES, PATH_BYTES, PATH_DEPTH

RESERVED_PREFIX = ".agent-builder-"
"""Names that begin like this belong to writes in progress; no tool sees or touches them."""

_GIT = ".git"
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")


class FileRefused(Exception):
    """A path or file that the tools do not touch; nothing was changed. `reason` is one stable word for receipts and
    `sentence` tells a model or the operator what is wrong and, where there is one, the way out."""

    def __init__(self, reason: str, sentence: str) -> None:
        self.reason = reason
        self.sentence = sentence
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """A canonical relative path below a workspace. Made by `parse_path` and `child` only."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "/".join(self.parts)

    @property
    def name(self) -> bytes:
        return self.parts[-1].encode()

    @property
    def directory(self) -> tuple[str, ...]:
        return self.parts[:-1]


def parse_path(text: str) -> WorkspacePath:
    """Raises FileRefused (`path`) unless the text is relative, canonical and within the bounds of a path."""
    size = _utf8_size(text)
    if not text:
        raise FileRefused("path", "the path is empty")
    if size > PATH_BYTES:
        raise FileRefused("path", f"the path has {size} bytes, at most {PATH_BYTES} are allowed")
    if text.startswith("/"):
        raise FileRefused("path", "the path is absolute; give it relative to the workspace")
    parts = tuple(text.split("/"))
    if len(parts) > PATH_DEPTH:
        raise FileRefused("path", f"the path has {len(parts)} components, at most {PATH_DEPTH} are allowed")
    for part in parts:
        _check_part(part)
    return WorkspacePath(parts)


def usable_name(name: str) -> bool:
    """Whether a name found in a directory could stand in a WorkspacePath."""
    try:
        _check_part(name)
    except FileRefused:
        return False
    return True


def _check_part(part: str) -> None:
    if part == "..":
        raise FileRefused("path", "the path has a '..'; it must stay inside the workspace")
    if part in ("", "."):
        raise FileRefused("path", "the path is not in its plain form (no '.', no '//', no '/' at the end)")
    if _utf8_size(part) > NAME_BYTES:
        raise FileRefused("path", f"a name in the path is longer than {NAME_BYTES} bytes")
    if any(unicodedata.category(character) == "Cc" or character in _DIRECTION_MARKS for character in part):
        raise FileRefused("path", "the path has a control character")
    if part.lower() == _GIT:
        raise FileRefused("git", "the .git directory is not open to tools")
    if part.startswith(RESERVED_PREFIX):
        raise FileRefused("reserved", f"names that begin with {RESERVED_PREFIX} are reserved")


def _utf8_size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise FileRefused("path", "the path is not valid Unicode") from error
