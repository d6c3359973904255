"""file/glob and file/grep: bounded searches without an index. Blocking: the broker runs them in a thread.

Both answer with what was searched, in path order, and with the bound that ended the search early, so that "nothing found"
is never mistaken for "not looked at".
"""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_builder.capsule.paths import FileRefused, usable_name
from agent_builder.capsule.safe_open import Place, open_directory, open_file, text_of
from agent_builder.capsule.walk import Found, Walk
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.limits import (
    SEARCH_FILES,
    SEARCH_LINE_BYTES,
    SEARCH_MATCHES,
    SEARCH_READ_BYTES,
    SEARCH_RESULT_BYTES,
    SEARCH_SKIPPED_SHOWN,
    SEARCH_SUMMARY_BYTES,
)
from agent_builder.tools.calls import CapabilityResult, ok
from agent_builder.tools.cuts import clip, counted, shown_path
from agent_builder.tools.file_read import directory_receipt, file_refusal, path_argument
from agent_builder.tools.glob_pattern import GlobPattern, composed, parse_glob
from agent_builder.tools.grep_pattern import GrepPattern, parse_grep

_NO_FILES = ("symlink", "not_regular")
_CHARS_BEFORE_MATCH = 40

Expired = Callable[[], bool]


@dataclass(slots=True)
class _Lines:
    """The body of a result, within its bounds."""

    lines: list[str] = field(default_factory=list)
    room: int = SEARCH_RESULT_BYTES - SEARCH_SUMMARY_BYTES
    full: str | None = None

    def add(self, line: str) -> None:
        size = len(line.encode()) + 1
        if len(self.lines) >= SEARCH_MATCHES:
            self.full = "matches"
        elif size > self.room:
            self.full = "result bytes"
        else:
            self.lines.append(line)
            self.room -= size


def glob(workspace: Path, arguments: dict[str, object], expired: Expired) -> CapabilityResult:
    try:
        return _glob(workspace, parse_glob(str(arguments["pattern"])), Walk(workspace, expired))
    except FileRefused as refusal:
        return file_refusal(workspace, "", refusal, expired)


def grep(workspace: Path, arguments: dict[str, object], expired: Expired) -> CapabilityResult:
    where = str(arguments.get("path", ""))
    try:
        pattern = parse_grep(str(arguments["pattern"]), arguments.get("regex") is True)
        search = _Grep(pattern, Walk(workspace, expired), expired)
        search.run(workspace, where)
    except FileRefused as refusal:
        return file_refusal(workspace, where, refusal, expired)
    return search.result()


def _glob(workspace: Path, pattern: GlobPattern, walk: Walk) -> CapabilityResult:
    found, alike, also = _Lines(), _Lines(), composed(pattern)
    for one in walk.below(_existing_start(workspace, pattern)):
        if one.refusal is not None and one.refusal.reason in _NO_FILES:
            walk.skipped[one.refusal.reason] += 1
        elif one.directory and not pattern.takes_directories:
            continue
        elif pattern.matches(one.path.parts):
            found.add(one.path.text + "/" * one.directory)
        elif not one.path.text.isascii() and also.matches(_composed_parts(one)):
            alike.add(one.path.text)
        if found.full:
            walk.truncated.add(found.full)
            break
    return _glob_result(pattern, walk, found, alike)


def _existing_start(workspace: Path, pattern: GlobPattern) -> tuple[str, ...]:
    """Where the walk may begin: the pattern's fixed directories, if they can be entered."""
    if not all(map(usable_name, pattern.fixed_start)):
        return ()
    try:
        with open_directory(workspace, pattern.fixed_start):
            return pattern.fixed_start
    except FileRefused:
        return ()


def _composed_parts(one: Found) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFC", part) for part in one.path.parts)


def _glob_result(pattern: GlobPattern, walk: Walk, found: _Lines, alike: _Lines) -> CapabilityResult:
    shown = clip(pattern.text, SEARCH_LINE_BYTES)
    count = len(found.lines)
    lines = [f"{count} match{'' if count == 1 else 'es'} for {shown} ({walk.entries} entries looked at)", *found.lines]
    if alike.lines:
        names = ", ".join(alike.lines[:SEARCH_SKIPPED_SHOWN])
        lines.append(clip(f"note: stored with decomposed or composed letters and therefore no match: {names}", SEARCH_LINE_BYTES * 2))
    if not count and "[" in pattern.text:
        lines.append("note: [...] is a set of characters; write [[] for a literal [")
    receipt = {
        "matches": count, "kind": "glob", "pattern_digest": digest_of(pattern.text), "content_digest": digest_of(found.lines),
        **directory_receipt(walk.chain),
    }
    return _result(lines, walk, receipt)


@dataclass(slots=True)
class _Grep:
    pattern: GrepPattern
    walk: Walk
    expired: Expired
    found: _Lines = field(default_factory=_Lines)
    chain: tuple[Place, ...] = ()
    versions: list[tuple[str, str]] = field(default_factory=list)  # path and digest of each file that was read
    searched: int = 0
    hit: int = 0
    bytes: int = 0
    skipped: list[str] = field(default_factory=list)

    def run(self, workspace: Path, where: str) -> None:
        """Raises FileRefused when `where` is neither a file nor a directory that may be searched."""
        for one in self._files(workspace, where):
            if self._bounded(one):
                return
            self._search(one)
            if self.found.full:
                self.walk.truncated.add(self.found.full)
                return

    def _files(self, workspace: Path, where: str) -> Iterator[Found]:
        if where in ("", ".", "./"):
            yield from self._below(())
            return
        path = path_argument(where.removesuffix("/"))
        with open_directory(workspace, path.directory) as parent:
            try:
                with open_file(parent, path) as file:
                    size, self.chain = file.found.st_size, parent.chain
                yield Found(path, parent, False, size, None)
                return
            except FileRefused as refusal:
                if refusal.reason != "directory":
                    raise
        yield from self._below(path.parts)

    def _below(self, parts: tuple[str, ...]) -> Iterator[Found]:
        return (one for one in self.walk.below(parts) if not one.directory)

    def _bounded(self, one: Found) -> bool:
        """Whether a bound ends the search before this file."""
        if len(self.versions) >= SEARCH_FILES:
            self.walk.truncated.add("files")
        elif one.refusal is None and self.bytes + one.bytes > SEARCH_READ_BYTES:
            self.walk.truncated.add("bytes read")
        elif self.expired():
            self.walk.truncated.add("time")
        else:
            return False
        return True

    def _search(self, one: Found) -> None:
        try:
            if one.refusal is not None:
                raise one.refusal
            with open_file(one.parent, one.path) as file:
                version, data = file.read()
            self.bytes += version.bytes
            self.versions.append((version.path.text, version.digest))
            text = text_of(one.path, data)
        except FileRefused as refusal:
            self.skipped.append(f"{shown_path(one.path.text)} ({refusal.reason})")
            return
        self.searched += 1
        self.hit += self._search_text(one.path.text, text)

    def _search_text(self, path: str, text: str) -> bool:
        """Whether there was a match."""
        hit = False
        for number, line in enumerate(text.split("\n"), 1):
            place = self.pattern.find(line.removesuffix("\r"), self.expired)
            if place is not None:
                hit = True
                self.found.add(f"{shown_path(path)}:{number}: {_around(line.removesuffix(chr(13)), place)}")
            if self.found.full or self.expired():
                break
        return hit

    def result(self) -> CapabilityResult:
        if self.expired():
            self.walk.truncated.add("time")
        count, pattern = len(self.found.lines), self.pattern
        shown = clip(pattern.text, SEARCH_LINE_BYTES)
        lines = [
            f"{counted(count, 'line')} with {shown} ({pattern.kind}) in {self.hit} of {counted(self.searched, 'file')} searched",
            *self.found.lines,
        ]
        if self.skipped:
            more = ", …" if len(self.skipped) > SEARCH_SKIPPED_SHOWN else ""
            lines.append(clip(f"not searched: {', '.join(self.skipped[:SEARCH_SKIPPED_SHOWN])}{more}", SEARCH_LINE_BYTES * 3))
        receipt = {
            "matches": count, "kind": pattern.kind, "files_searched": self.searched, "files_skipped": len(self.skipped),
            "pattern_digest": digest_of(pattern.text), "content_digest": digest_of(self.versions),
            **directory_receipt(self.chain or self.walk.chain),
        }
        return _result(lines, self.walk, receipt)


def _around(line: str, place: int) -> str:
    """A long line is cut to the part around the match."""
    if len(line.encode()) <= SEARCH_LINE_BYTES:
        return line
    start = max(0, place - _CHARS_BEFORE_MATCH)
    return ("…" if start else "") + clip(line[start : start + SEARCH_LINE_BYTES], SEARCH_LINE_BYTES)


def _result(lines: list[str], walk: Walk, receipt: dict[str, object]) -> CapabilityResult:
    if walk.skipped:
        lines.append("left out: " + ", ".join(f"{count} {reason}" for reason, count in sorted(walk.skipped.items())))
    if walk.truncated:
        lines.append(f"not complete, stopped at the bound of: {', '.join(sorted(walk.truncated))}")
    return ok("\n".join(lines), **receipt, entries=walk.entries, truncated=bool(walk.truncated), bounds=sorted(walk.truncated))
