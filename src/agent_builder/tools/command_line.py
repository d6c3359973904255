"""The command line of exec/run: a grammar so small that what is approved is exactly what runs.

    line  = "runtime-compile" | name word*        at most 8 words after the name
    name  = "printf" | "pwd" | "true" | "false"
    word  = (plain | "'" any* "'" | '"' (any but $ and `)* '"' | "\\" any)+

Words are separated by blanks. Within double quotes a backslash escapes only `"`, `\\`, `$` and a backtick, elsewhere it stays,
as in Bash. Everything in which a shell would see more than a word is refused with its name. The result is a list of
words: Bash gets them as arguments and never sees the line.
"""

from dataclasses import dataclass

from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.limits import COMMAND_ARGUMENTS, COMMAND_BYTES

RUNTIME_COMPILE = "runtime-compile"
BUILTINS = ("printf", "pwd", "true", "false")

_SPECIAL = {
    "$": "a substitution", "`": "a substitution", ";": "a second command", "&": "a second command", "|": "a pipe",
    "<": "a redirection", ">": "a redirection", "(": "a subshell", ")": "a subshell", "{": "a brace expansion",
    "}": "a brace expansion", "*": "a file pattern", "?": "a file pattern", "[": "a file pattern", "]": "a file pattern",
    "~": "a home directory",
}
_BLANKS = " \t"
_ESCAPED_IN_QUOTES = '"\\$`'


class CommandRefused(Exception):
    """The line is not in the grammar. `sentence` names what is not allowed and what is."""

    def __init__(self, fault: str) -> None:
        self.sentence = f"{fault}; allowed are {RUNTIME_COMPILE} alone, or one of {', '.join(BUILTINS)} with its words"
        super().__init__(self.sentence)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Made by `parse_command` only. `words` begins with the name."""

    words: tuple[str, ...]

    @property
    def compiles(self) -> bool:
        return self.words[0] == RUNTIME_COMPILE

    @property
    def digest(self) -> str:
        """Of the canonical tree: what kind, which words, no redirection."""
        return digest_of({"kind": RUNTIME_COMPILE if self.compiles else "bounded-bash", "words": list(self.words), "redirections": []})


def parse_command(line: str) -> CommandLine:
    """Raises CommandRefused."""
    if len(line.encode()) > COMMAND_BYTES:
        raise CommandRefused(f"the command is longer than {COMMAND_BYTES} bytes")
    words, quoted_name = _Words(line).read()
    if not words:
        raise CommandRefused("the command is empty")
    name = words[0]
    if "=" in name and not quoted_name:
        raise CommandRefused("an assignment is not allowed")
    if name == RUNTIME_COMPILE:
        if len(words) > 1:
            raise CommandRefused(f"{RUNTIME_COMPILE} takes no arguments")
        return CommandLine((name,))
    if name not in BUILTINS:
        raise CommandRefused(f"{name[:40]!r} is not allowed")
    if len(words) - 1 > COMMAND_ARGUMENTS:
        raise CommandRefused(f"{name} has {len(words) - 1} arguments; at most {COMMAND_ARGUMENTS} are allowed")
    if name == "printf" and len(words) > 1 and words[1].startswith("-v"):
        raise CommandRefused("printf -v is an assignment and not allowed")
    return CommandLine(tuple(words))


class _Words:
    """One pass over the line."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._place = 0

    def read(self) -> tuple[list[str], bool]:
        """The words, and whether any part of the first was quoted or escaped."""
        words: list[str] = []
        first_quoted = False
        while self._skip_blanks():
            word, quoted = self._word()
            first_quoted = first_quoted or (quoted and not words)
            words.append(word)
        return words, first_quoted

    def _skip_blanks(self) -> bool:
        """Whether a word follows."""
        while self._peek() and self._peek() in _BLANKS:
            self._place += 1
        if self._peek() == "#":
            raise CommandRefused("a comment is not allowed")
        return self._place < len(self._line)

    def _word(self) -> tuple[str, bool]:
        word, quoted = "", False
        while (character := self._peek()) and character not in _BLANKS:
            self._place += 1
            if character == "'":
                word += self._until_single_quote()
            elif character == '"':
                word += self._until_double_quote()
            elif character == "\\":
                word += self._taken("a backslash at the end")
            elif character in _SPECIAL:
                raise CommandRefused(f"{_SPECIAL[character]} ({character}) is not allowed; put literal text in single quotes")
            else:
                word += _printable(character)
                continue
            quoted = True
        return word, quoted

    def _until_single_quote(self) -> str:
        end = self._line.find("'", self._place)
        if end < 0:
            raise CommandRefused("a single quote is not closed")
        inner = self._line[self._place : end]
        self._place = end + 1
        return "".join(map(_printable, inner))

    def _until_double_quote(self) -> str:
        inner = ""
        while (character := self._taken("a double quote is not closed", bare=True)) != '"':
            if character in "$`":
                raise CommandRefused(f"a substitution ({character}) is not allowed; put literal text in single quotes")
            if character == "\\" and self._peek() and self._peek() in _ESCAPED_IN_QUOTES:
                character = self._taken("")
            inner += character
        return inner

    def _taken(self, fault: str, *, bare: bool = False) -> str:
        character = self._peek()
        if not character:
            raise CommandRefused(fault if bare else f"{fault} is not allowed")
        self._place += 1
        return _printable(character)

    def _peek(self) -> str:
        return self._line[self._place : self._place + 1]


def _printable(character: str) -> str:
    """A blank may stand in quotes; control characters stand nowhere."""
    if character == "\n":
        raise CommandRefused("a line break is not allowed")
    if character not in _BLANKS and (character < " " or character == "\x7f"):
        raise CommandRefused("a control character is not allowed")
    return character
