"""Spells characters that the eye does not see, so that nothing hides in what the operator is asked to approve. Pure.

Hidden are control, format and separator characters, every space but the plain one, and what renders as nothing (Unicode's
Default_Ignorable_Code_Point and the empty Braille pattern). Ordinary writing stays readable: a tab, a wide space beside a wide
character, and the selector that makes a symbol an emoji are left as they are.
"""

import unicodedata

_HIDDEN_CATEGORIES = ("Cc", "Cf", "Zl", "Zp", "Zs", "Cs")
_HIDDEN_RANGES = (  # of other categories; source: DerivedCoreProperties.txt
    ("\u034f", "\u034f"), ("\u115f", "\u1160"), ("\u17b4", "\u17b5"), ("\u180b", "\u180f"), ("\u2065", "\u2065"), ("\u2800", "\u2800"),
    ("\u3164", "\u3164"), ("\ufe00", "\ufe0f"), ("\uffa0", "\uffa0"), ("\ufff0", "\ufff8"), ("\U000e0000", "\U000e0fff"),
)
_WIDE_SPACE = "\u3000"
_PRESENTATION = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"


def visible(line: str) -> str:
    """The line with its hidden characters spelled as ⟦U+200B⟧."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(_spelled(one) if _hidden(one) and not _ordinary(line, place) else one for place, one in enumerate(line))


def spelled(line: str) -> str:
    """Like `visible`, but nothing counts as ordinary."""
    return "".join(_spelled(one) if _hidden(one) else one for one in line)


def bare(line: str) -> str:
    """The line as the eye compares it: without spaces and hidden characters."""
    return "".join(one for one in "".join(line.split()) if not _hidden(one))


def _hidden(one: str) -> bool:
    if one.isascii():
        return not one.isprintable() and one != "\t"
    return unicodedata.category(one) in _HIDDEN_CATEGORIES or any(first <= one <= last for first, last in _HIDDEN_RANGES)


def _spelled(one: str) -> str:
    return f"⟦U+{ord(one):04X}⟧"


def _ordinary(line: str, place: int) -> bool:
    one = line[place]
    if one == _WIDE_SPACE:
        return _wide(line[:place].rstrip(_WIDE_SPACE)[-1:]) or _wide(line[place:].lstrip(_WIDE_SPACE)[:1])
    if one in _PRESENTATION:
        return place > 0 and (unicodedata.category(line[place - 1]) in ("So", "Sm") or line[place + 1 : place + 2] == _KEYCAP)
    return False


def _wide(one: str) -> bool:
    return one != "" and unicodedata.east_asian_width(one) in ("W", "F")
