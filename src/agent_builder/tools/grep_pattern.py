"""GrepPattern: a literal, or the part of regular expressions whose matches have one fixed length.

Allowed: characters, `.`, sets `[a-z]` `[^0-9]`, `\\d \\w \\s \\b` and their capitals, escaped punctuation, `^` first, `$` last.
Everything that repeats, chooses or remembers is refused with its name. A fixed length makes the time linear: long lines
are searched in pieces that overlap by that length, so that a search can stop in between.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import GREP_CHUNK_CHARS

_REFUSED = {
    "(": "a group", ")": "a group", "|": "an alternative", "*": "a repetition", "+": "a repetition", "?": "a repetition",
    "{": "a repetition", "}": "a repetition", "]": "a ']' without '['",
}
_CLASSES = "dDwWsS"
_EDGES = "bB"


@dataclass(frozen=True, slots=True)
class GrepPattern:
    """Made by `parse_grep` only. `width`: characters of every match. `body` is None for a literal."""

    text: str
    body: re.Pattern[str] | None
    width: int
    at_start: bool = False
    at_end: bool = False

    @property
    def kind(self) -> str:
        return "literal" if self.body is None else "regex"

    def find(self, line: str, expired: Callable[[], bool]) -> int | None:
        """Where in the line the first match begins; None for none, also when the time was over."""
        if self.body is None:
            place = line.find(self.text)
            return None if place < 0 else place
        if self.at_start or self.at_end:
            return self._find_anchored(line)
        for start in range(0, len(line) + 1, GREP_CHUNK_CHARS):
            end = start + GREP_CHUNK_CHARS
            # One character more than a match, so that \b sees what follows.
            found = self.body.search(line, start, end + self.width + 1)
            if found is not None and found.start() < end:
                return found.start()
            if expired():
                return None
        return None

    def _find_anchored(self, line: str) -> int | None:
        assert self.body is not None
        place = len(line) - self.width if self.at_end else 0
        if place < 0 or (self.at_start and place != 0):
            return None
        return place if self.body.match(line, place) else None


def parse_grep(text: str, regex: bool) -> GrepPattern:
    """Raises FileRefused (`pattern`) with the construct that is not allowed."""
    if not text:
        raise FileRefused("pattern", "the pattern is empty")
    if "\n" in text or "\r" in text:
        raise FileRefused("pattern", "the pattern has a line break; a search looks at one line at a time")
    return _parse_regex(text) if regex else GrepPattern(text, None, len(text))


def _parse_regex(text: str) -> GrepPattern:
    at_start = text.startswith("^")
    at_end = text.endswith("$") and not _escaped(text, len(text) - 1)
    inner = text[at_start : len(text) - at_end]
    atoms: list[str] = []
    width = place = 0
    while place < len(inner):
        atom, place, size = _atom(inner, place)
        atoms.append(atom)
        width += size
    return GrepPattern(text, re.compile("".join(atoms)), width, at_start, at_end)


def _atom(text: str, place: int) -> tuple[str, int, int]:
    """One element as `re` spells it, the place behind it, and the characters that it matches."""
    character = text[place]
    if character in _REFUSED:
        raise _not_allowed(_REFUSED[character], character)
    if character in "^$":
        raise _not_allowed("an anchor in the middle", character)
    if character == ".":
        return ".", place + 1, 1
    if character == "[":
        spelled, place = _set(text, place)
        return spelled, place, 1
    if character == "\\":
        return _escape(text, place)
    return re.escape(character), place + 1, 1


def _escape(text: str, place: int) -> tuple[str, int, int]:
    following = text[place + 1 : place + 2]
    if following and following in _CLASSES:
        return "\\" + following, place + 2, 1
    if following and following in _EDGES:
        return "\\" + following, place + 2, 0
    if following == "t":
        return "\t", place + 2, 1
    if not following or following.isalnum():
        raise _not_allowed("a backreference" if following.isdigit() else "an escape", "\\" + following)
    return re.escape(following), place + 2, 1


def _set(text: str, start: int) -> tuple[str, int]:
    """A set, spelled with every character escaped."""
    place = start + 1
    negated = text[place : place + 1] == "^"
    place += negated
    spelled = ""
    while text[place : place + 1] != "]":
        member, place = _member(text, place)
        if text[place : place + 1] == "-" and text[place + 1 : place + 2] not in ("]", ""):
            last, place = _member(text, place + 1)
            if len(member) > 1 or len(last) > 1 or member > last:
                raise _not_allowed("a reversed range", f"{member}-{last}")
            spelled += f"{re.escape(member)}-{re.escape(last)}"
        else:
            spelled += member if len(member) > 1 else re.escape(member)
    if not spelled:
        raise _not_allowed("an empty set", "[]")
    return f"[{'^' if negated else ''}{spelled}]", place + 1


def _member(text: str, place: int) -> tuple[str, int]:
    """One character of a set, or a class as `\\d`, and the place behind it."""
    character = text[place : place + 1]
    if not character:
        raise _not_allowed("a '[' without ']'", "[")
    if character == "[" and text[place + 1 : place + 2] in (":", ".", "="):
        raise _not_allowed("a named class", text[place : place + 2])
    if character != "\\":
        return character, place + 1
    following = text[place + 1 : place + 2]
    if following and following in _CLASSES:
        return "\\" + following, place + 2
    if not following or following.isalnum():
        raise _not_allowed("an escape in a set", "\\" + following)
    return following, place + 2


def _escaped(text: str, place: int) -> bool:
    before = text[:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _not_allowed(what: str, spelled: str) -> FileRefused:
    return FileRefused("pattern", f"this regex has {what} ({spelled}), which is not allowed; search for a literal part of it instead (without regex)")
