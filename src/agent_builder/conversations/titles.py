"""Titles of Conversations and names of Agents: 1 to 120 Unicode code points after trimming, visible, on one line.

Markup is text like any other. What is refused: control characters and line breaks, the controls that turn the direction of
writing (they can make a row read as something else), lone surrogates, and texts in which nothing is visible.
"""

import unicodedata

from agent_builder.protocol.errors import InvalidRequest
from agent_builder.protocol.limits import TITLE_CHARS, TITLE_FROM_MESSAGE_CHARS
from agent_builder.storage.conversations import UNTITLED

_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Mn", "Me", "Zs", "Zl", "Zp"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols by category that show as nothing
_JOINER = "\u200d"
_VIRAMA = 9  # combining class of the sign that joins two Indic consonants
_ELLIPSIS = "…"


def checked_title(text: str) -> str:
    """The title, trimmed. Raises InvalidRequest with what is wrong."""
    title = text.strip()
    if any(map(_is_control, title)):
        raise InvalidRequest("A name has one line and no control characters.", field="title")
    if not _visible(title):
        raise InvalidRequest("A name needs at least one visible character.", field="title")
    if len(title) > TITLE_CHARS:
        raise InvalidRequest(f"A name has at most {TITLE_CHARS} characters.", field="title")
    return title


def title_from(message: str) -> str:
    """The first visible line of a message, cut between two visible characters to at most 60 code points. Always a title
    that `checked_title` accepts."""
    for line in message.splitlines():
        plain = " ".join("".join(char for char in line if char == "\t" or not _is_control(char)).split())
        if _visible(plain):
            return cut(plain, TITLE_FROM_MESSAGE_CHARS)
    return UNTITLED


def branch_title(title: str) -> str:
    """`Plan` -> `Plan (2)` -> `Plan (3)`."""
    head, separator, tail = title.rpartition(" (")
    number = tail[:-1] if tail.endswith(")") else ""
    stem, count = (head, int(number) + 1) if separator and _is_count(number) else (title, 2)
    mark = f" ({count})"
    return cut(stem, TITLE_CHARS - len(mark)) + mark


def cut(text: str, limit: int) -> str:
    """At most `limit` code points, with an ellipsis where something is left out, never inside an emoji sequence or between a
    letter and its marks; only a single visible character longer than `limit` is broken."""
    if len(text) <= limit:
        return text
    end = limit - len(_ELLIPSIS)
    while end > 0 and not _may_break(text, end):
        end -= 1
    return (text[:end].rstrip() or text[: limit - len(_ELLIPSIS)]) + _ELLIPSIS


# Details


def _visible(text: str) -> bool:
    return any(char not in _BLANK_LETTERS and unicodedata.category(char) not in _INVISIBLE for char in text)


def _is_control(char: str) -> bool:
    return char in _BIDI_CONTROLS or unicodedata.category(char) in _CONTROLS


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < len(str(TITLE_CHARS)) + 1 and text[0] != "0"


def _may_break(text: str, at: int) -> bool:
    """Whether two visible characters meet between `at - 1` and `at`."""
    before, after = text[at - 1], text[at]
    if _JOINER in (before, after) or _continues(after) or unicodedata.combining(before) == _VIRAMA:
        return False
    return not (_is_flag(after) and _flags_before(text, at) % 2)


def _continues(char: str) -> bool:
    """Marks, variation selectors, skin tones and tags belong to what stands before them."""
    return unicodedata.category(char) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f"


def _is_flag(char: str) -> bool:
    """Half of a flag: regional indicators come in pairs."""
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _is_flag(text[start - 1]):
        start -= 1
    return at - start
