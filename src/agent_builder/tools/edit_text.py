"""Replaces one piece of a text by another. Pure; the replacement is taken literally.

Line endings are the file's: a piece with line feeds is found in a file with CRLF, and what replaces it gets the file's
endings. A BOM at the beginning of the file stays where it is. A piece with one line feed too many at the end of a file
without a last line feed is found too. Everything else must be equal, character for character.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from agent_builder.protocol.limits import (
    CLOSEST_CANDIDATES,
    CLOSEST_LINE_CHARS,
    CLOSEST_LINES,
    OCCURRENCES_COUNTED,
)

_BOM = "\ufeff"
_CRLF = "\r\n"
_ALIKE = 0.3
_PIECE = 3


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Characters start..end of the text, and the line it begins in, from 1."""

    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """`text`: the whole new text. `old` and `new`: what is taken out at `start` (in characters) and what comes in."""

    text: str
    start: int
    old: str
    new: str


def occurrences(text: str, old: str) -> list[Occurrence]:
    """Where `old` occurs, overlapping ones counted, at most OCCURRENCES_COUNTED."""
    old = _plain(_without_bom(text, old))
    if not old:
        return []
    body = _Body(text)
    found = [body.occurrence(place, place + len(old)) for place in body.places(old)]
    if not found and old.endswith("\n") and len(old) > 1 and body.ends_with(old[:-1]):
        return [body.occurrence(len(body.plain) - len(old) + 1, len(body.plain))]
    return found


def replace(text: str, old: str, new: str, where: Occurrence) -> Replacement:
    """The text with `where` (one of its occurrences of `old`) replaced by `new`."""
    new = _without_bom(text, new)
    taken = text[where.start : where.end]
    if old.endswith("\n") and not taken.endswith("\n"):
        new = new.removesuffix("\n").removesuffix("\r")
    ending = _ending_near(text, where)
    if ending is not None:
        new = _plain(new).replace("\n", ending)
    return Replacement(text[: where.start] + new + text[where.end :], where.start, taken, new)


def with_endings_of(old_text: str, content: str) -> str:
    """New content for a whole file: the old one's BOM and, where it had nothing but CRLF, its line endings are kept."""
    lines, crlf = old_text.count("\n"), old_text.count(_CRLF)
    if crlf and lines == crlf:
        content = _plain(content).replace("\n", _CRLF)
    if old_text.startswith(_BOM) and not content.startswith(_BOM):
        content = _BOM + content
    return content


def closest_lines(text: str, old: str, expired: Callable[[], bool]) -> list[tuple[int, str]]:
    """The lines most like those of `old`, with their numbers, in file order, as far as they were compared before time was up.
    Compared by their runs of three characters."""
    wanted = [pieces for line in old.splitlines()[:CLOSEST_LINES] if (pieces := _pieces(line))]
    scored = []
    for number, line in enumerate(text.split("\n")[:CLOSEST_CANDIDATES], 1):
        if expired():
            break
        pieces = _pieces(line)
        score = max((len(pieces & one) / len(pieces | one) for one in wanted), default=0.0) if pieces else 0.0
        if score >= _ALIKE:
            scored.append((-score, number, line.removesuffix("\r")[:CLOSEST_LINE_CHARS]))
    return sorted((number, line) for _, number, line in sorted(scored)[:CLOSEST_LINES])


class _Body:
    """A text without its BOM and with plain line feeds, and the way back to places in the real one."""

    def __init__(self, text: str) -> None:
        self._offset = len(_BOM) if text.startswith(_BOM) else 0
        real = text[self._offset :]
        self.plain = _plain(real)
        self._crlf = _crlf_places(real) if _CRLF in real else []

    def places(self, old: str) -> list[int]:
        found: list[int] = []
        place = self.plain.find(old)
        while place >= 0 and len(found) < OCCURRENCES_COUNTED:
            found.append(place)
            place = self.plain.find(old, place + 1)
        return found

    def ends_with(self, old: str) -> bool:
        return not self.plain.endswith("\n") and self.plain.endswith(old)

    def occurrence(self, start: int, end: int) -> Occurrence:
        return Occurrence(self._real(start), self._real(end), self.plain.count("\n", 0, start) + 1)

    def _real(self, place: int) -> int:
        return self._offset + place + bisect_left(self._crlf, place)


def _crlf_places(real: str) -> list[int]:
    """Places in the plain text of the line feeds that are CRLF in the real one."""
    places: list[int] = []
    found = real.find(_CRLF)
    while found >= 0:
        places.append(found - len(places))
        found = real.find(_CRLF, found + len(_CRLF))
    return places


def _ending_near(text: str, where: Occurrence) -> str | None:
    """The line ending within or next to the occurrence; None in a text of one line."""
    place = text.find("\n", where.start)
    if place < 0:
        place = text.rfind("\n", 0, where.start)
    if place < 0:
        return None
    return _CRLF if text[place - 1 : place] == "\r" else "\n"


def _plain(text: str) -> str:
    return text.replace(_CRLF, "\n")


def _without_bom(text: str, piece: str) -> str:
    return piece.removeprefix(_BOM) if text.startswith(_BOM) else piece


def _pieces(line: str) -> set[str]:
    line = line.strip()[:CLOSEST_LINE_CHARS]
    return {line[place : place + _PIECE] for place in range(max(1, len(line) - _PIECE + 1))} if line else set()
