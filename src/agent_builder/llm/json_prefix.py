"""Whether a text may still become one JSON object of a call: a small machine that is fed character by character and
stops at the first one that rules it out. At the outer levels only the keys of a call are possible.
"""

import re
from enum import StrEnum

from agent_builder.protocol.limits import CALL_NUMBER_CHARS

CALL_KEYS = ("name", "function", "tool", "arguments", "parameters", "type")
NAME_KEYS = ("name", "function", "tool")
ARGUMENT_KEYS = ("arguments", "parameters")

_WHITE = " \t\n\r"
_NUMBER_PREFIX = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d*)?(?:(?<=\d)[eE][+-]?\d*)?)?", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_LITERALS = ("true", "false", "null")


class State(StrEnum):
    """What may come next."""

    VALUE = "value"
    FIRST_KEY = "first key or }"
    KEY = "key"
    COLON = "colon"
    FIRST_ITEM = "first item or ]"
    AFTER = "comma or end"
    STRING = "in a string"
    ESCAPE = "after a backslash"
    HEX = "in \\u"
    SCALAR = "in a number or literal"
    CLOSED = "closed"


class JsonPrefix:
    """Begins before the opening brace. `feed` returns False at the character that no call has there; `closed` tells that
    the object is complete."""

    def __init__(self) -> None:
        self._state = State.VALUE
        self._stack: list[str] = []
        self._token = ""
        self._hex_left = 0
        self._in_key = False
        self._key = ""
        self._nested = False  # inside the object of a "function" key

    @property
    def closed(self) -> bool:
        return self._state is State.CLOSED

    def skip(self, text: str, start: int) -> int:
        """Where in `text` the plain characters of an open string end; `start` outside of strings. They need no feeding."""
        if self._state is not State.STRING or (self._in_key and self._call_level):
            return start
        plain = _PLAIN.match(text, start)
        return plain.end() if plain else start

    def feed(self, char: str) -> bool:
        state = self._state
        if state is State.STRING:
            return self._string(char)
        if state is State.ESCAPE:
            return self._escape(char)
        if state is State.HEX:
            return self._hex(char)
        if state is State.SCALAR:
            return self._scalar(char)
        if char in _WHITE and self._stack:
            return True
        return self._structure(char)

    def _structure(self, char: str) -> bool:
        state = self._state
        if state is State.VALUE:
            return self._value(char)
        if state is State.FIRST_ITEM:
            return self._close(char) if char == "]" else self._value(char)
        if state in (State.FIRST_KEY, State.KEY):
            if char == '"':
                self._begin_string(key=True)
                return True
            return char == "}" and state is State.FIRST_KEY and not self._call_level and self._close(char)
        if state is State.COLON:
            self._state = State.VALUE
            return char == ":"
        if state is State.AFTER:
            return self._after(char)
        return False

    def _value(self, char: str) -> bool:
        if not self._value_fits(char):
            return False
        if char in "{[":
            self._nested = self._nested or (len(self._stack) == 1 and self._key == "function")
            self._stack.append(char)
            self._state = State.FIRST_KEY if char == "{" else State.FIRST_ITEM
        elif char == '"':
            self._begin_string(key=False)
        elif char in "-0123456789tfn":
            self._token, self._state = char, State.SCALAR
        else:
            return False
        return True

    def _value_fits(self, char: str) -> bool:
        """At the levels of the call itself a key decides the type of its value."""
        if not self._stack:
            return char == "{"
        if not self._call_level:
            return True
        if self._key in ARGUMENT_KEYS:
            return char == "{"
        return char == '"' or (char == "{" and self._key == "function" and len(self._stack) == 1)

    def _after(self, char: str) -> bool:
        if char == ",":
            self._state = State.KEY if self._stack[-1] == "{" else State.VALUE
            return True
        return self._close(char)

    def _close(self, char: str) -> bool:
        if {"{": "}", "[": "]"}[self._stack[-1]] != char:
            return False
        self._stack.pop()
        self._state = State.AFTER if self._stack else State.CLOSED
        if len(self._stack) == 1:
            self._nested = False
        return True

    @property
    def _call_level(self) -> bool:
        return len(self._stack) == 1 or (len(self._stack) == 2 and self._nested)

    def _begin_string(self, *, key: bool) -> None:
        self._state, self._in_key, self._token = State.STRING, key, ""

    def _string(self, char: str) -> bool:
        if char == '"':
            return self._end_string()
        if char == "\\":
            self._state = State.ESCAPE
            return not (self._in_key and self._call_level)
        if char < " ":
            return False
        if self._in_key and self._call_level:
            self._token += char
            return any(key.startswith(self._token) for key in CALL_KEYS)
        return True

    def _end_string(self) -> bool:
        if not self._in_key:
            self._state = State.AFTER
            return True
        self._state = State.COLON
        if self._call_level:
            self._key = self._token
            return self._token in CALL_KEYS
        return True

    def _escape(self, char: str) -> bool:
        self._state = State.STRING
        if char == "u":
            self._state, self._hex_left = State.HEX, 4
            return True
        return char in '"\\/bfnrt'

    def _hex(self, char: str) -> bool:
        self._hex_left -= 1
        if not self._hex_left:
            self._state = State.STRING
        return char in "0123456789abcdefABCDEF"

    def _scalar(self, char: str) -> bool:
        if char in _WHITE or char in ",]}":
            if _NUMBER.fullmatch(self._token) is None and self._token not in _LITERALS:
                return False
            self._state = State.AFTER
            return char in _WHITE or self._after(char)
        self._token += char
        if len(self._token) > CALL_NUMBER_CHARS:
            return False
        if self._token[0] in "tfn":
            return any(literal.startswith(self._token) for literal in _LITERALS)
        return _NUMBER_PREFIX.fullmatch(self._token) is not None
