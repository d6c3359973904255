"""The front matter of a SKILL.md: the lines between two `---`, and the text behind them. Pure.

What occurs in such files is read: `key: value` with a plain, quoted, folded (`>`) or literal (`|`) value, a plain value that goes on in
indented lines, one level of `key: value` below a key (read as `key.inner`), and lists, which are passed over. Whatever else YAML has
(anchors, tags, keys of several words, tabs before text) is refused with its line.
"""

import json
import re
from dataclasses import dataclass, field

from agent_builder.protocol.limits import SKILL_FRONT_MATTER_LINES

_MARK = "---"
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ ]+(.*))?")
_BLOCK = re.compile(r"([>|])[+-]?[ ]*(?:#.*)?")
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[ ]*(?:[ ]#.*)?""")
_FLOW = re.compile(r"(\[.*\]|\{.*\})[ ]*(?:[ ]#.*)?")
_NOT_PLAIN = "&*!%@`\"'[{]},|>"


class FrontMatterFault(Exception):
    """`line`: counted from 1 in the file. `sentence`: what is wrong with it."""

    def __init__(self, line: int, sentence: str) -> None:
        self.line = line
        self.sentence = sentence
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`values`: text by key, `outer.inner` for a key below a key. `lines`: where each key stands. `body`: what follows, as it is."""

    values: dict[str, str]
    lines: dict[str, int]
    body: str


def parse_front_matter(text: str) -> FrontMatter:
    """Raises FrontMatterFault."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _MARK:
        raise FrontMatterFault(1, "the file must begin with a line ---")
    end = next((index for index, line in enumerate(lines) if index and line.rstrip() == _MARK), None)
    if end is None:
        raise FrontMatterFault(1, "the front matter has no closing line ---")
    if end > SKILL_FRONT_MATTER_LINES:
        raise FrontMatterFault(end + 1, f"the front matter has more than {SKILL_FRONT_MATTER_LINES} lines")
    reader = _Reader([line.rstrip() for line in lines[:end]])
    reader.read()
    return FrontMatter(reader.values, reader.lines, "\n".join(lines[end + 1 :]))


@dataclass(slots=True)
class _Reader:
    """`place`: index of the next line."""

    source: list[str]
    values: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    place: int = 1

    def read(self) -> None:
        while self.place < len(self.source):
            line = self.source[self.place]
            if _empty(line):
                self.place += 1
            elif line[0] in " \t":
                raise self._fault("this line is indented, but belongs to no key")
            else:
                self._entry(line, "", 0)

    def _entry(self, line: str, outer: str, indent: int) -> None:
        found = _KEY.fullmatch(line)
        if found is None:
            raise self._fault("this is no line of the form key: value")
        key, rest = outer + found[1], (found[2] or "").strip()
        if key in self.lines:
            raise self._fault(f"{found[1]} stands twice")
        self.lines[key] = self.place + 1
        if not rest or rest.startswith("#"):
            self.place += 1
            if not outer:
                self._below(key)
        else:
            value = self._value(rest, indent)
            if value is not None:
                self.values[key] = value

    def _value(self, rest: str, indent: int) -> str | None:
        """None for a list or object on one line, which is passed over."""
        if block := _BLOCK.fullmatch(rest):
            self.place += 1
            return self._block(block[1], indent)
        if rest[:1] in ('"', "'"):
            return self._quoted(rest)
        if _FLOW.fullmatch(rest):
            self.place += 1
            return None
        if rest[:1] and rest[0] in _NOT_PLAIN:
            raise self._fault(f"a value that begins with {rest[0]} is not understood; write it between quotes")
        self.place += 1
        parts = [_without_comment(rest), *self._indented(indent)]
        return " ".join(part for part in parts if part)

    def _quoted(self, rest: str) -> str:
        found = _QUOTED.fullmatch(rest)
        if found is None:
            raise self._fault("the quotes of this value do not close on its line")
        quoted = found[1]
        try:
            value = quoted[1:-1].replace("''", "'") if quoted[0] == "'" else str(json.loads(quoted))
        except ValueError as error:
            raise self._fault("this quoted value has an escape that is not understood") from error
        self.place += 1
        return value

    def _block(self, kind: str, indent: int) -> str:
        """Folded: lines become one paragraph, an empty line ends it. Literal: as it stands."""
        lines: list[str] = []
        margin: int | None = None
        while self.place < len(self.source) and (not self.source[self.place] or _indent(self.source[self.place]) > indent):
            line = self.source[self.place]
            if line.startswith("\t"):
                raise self._fault("a tab is used to indent")
            margin = _indent(line) if margin is None and line else margin
            lines.append(line[min(_indent(line), margin or 0) :])
            self.place += 1
        text = "\n".join(lines).strip("\n")
        return text if kind == "|" else re.sub(r"\n+", lambda gap: " " if gap[0] == "\n" else gap[0][1:], text)

    def _below(self, key: str) -> None:
        """What stands below a key without a value: text, a list, or keys. Deeper levels are passed over."""
        start = next((line for line in self.source[self.place :] if not _empty(line)), "")
        indent = _indent(start)
        if start.startswith("\t"):
            raise self._fault("a tab is used to indent")
        if start.lstrip().startswith("- ") or start.strip() == "-":
            self._pass_list(indent)
        elif indent and _KEY.fullmatch(start.strip()):
            self._map(key, indent)
        elif indent:
            self.values[key] = " ".join(part for part in self._indented(0) if part)

    def _map(self, outer: str, indent: int) -> None:
        while self.place < len(self.source):
            line = self.source[self.place]
            if not _empty(line) and _indent(line) < indent:
                return
            if _empty(line) or _indent(line) > indent or line.strip().startswith("- "):
                self.place += 1
            else:
                self._entry(line.strip(), f"{outer}.", indent)

    def _pass_list(self, indent: int) -> None:
        while self.place < len(self.source):
            line = self.source[self.place]
            item = line.lstrip().startswith("-") and _indent(line) == indent
            if not _empty(line) and not item and _indent(line) <= indent:
                return
            self.place += 1

    def _indented(self, indent: int) -> list[str]:
        """The lines by which a plain value goes on."""
        parts = []
        while self.place < len(self.source) and self.source[self.place] and _indent(self.source[self.place]) > indent:
            if self.source[self.place].startswith("\t"):
                raise self._fault("a tab is used to indent")
            parts.append(_without_comment(self.source[self.place].strip()))
            self.place += 1
        return parts

    def _fault(self, sentence: str) -> FrontMatterFault:
        return FrontMatterFault(self.place + 1, sentence)


def _empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _without_comment(text: str) -> str:
    return "" if text.startswith("#") else re.sub(r"\s#.*", "", text).strip()
