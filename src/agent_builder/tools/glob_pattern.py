"""GlobPattern: matches paths without backtracking, so no pattern can be slow.

`*` any characters of one name, `?` one, `[abc]` `[a-z]` `[!a]` one of a set, `**` as a whole component any number of
directories, also none. `[[]` is a literal `[`. Hidden names match like others; case counts; characters count as they are
stored (a composed letter is not its decomposed form). A `/` at the end means everything below.
"""

import unicodedata
from dataclasses import dataclass

from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import PATH_DEPTH, PATTERN_BYTES


@dataclass(frozen=True, slots=True)
class _One:
    """One character: within `ranges`, or outside of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def fits(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.negated

    @property
    def literal(self) -> str | None:
        if self.negated or len(self.ranges) != 1 or self.ranges[0][0] != self.ranges[0][1]:
            return None
        return self.ranges[0][0]


_Star = None
_Token = _One | None
_ANY = _One((), negated=True)
_DEEP = "**"
_Component = tuple[_Token, ...] | str


@dataclass(frozen=True, slots=True)
class GlobPattern:
    """Made by `parse_glob` only."""

    text: str
    components: tuple[_Component, ...]

    @property
    def takes_directories(self) -> bool:
        """Whether directories themselves are of interest: not with a `**` at the end, where their files are listed."""
        return self.components[-1] != _DEEP

    @property
    def fixed_start(self) -> tuple[str, ...]:
        """The directories that every match lies in."""
        fixed: list[str] = []
        for component in self.components[:-1]:
            letters = [] if isinstance(component, str) else [token.literal if token else None for token in component]
            if not letters or None in letters:
                break
            fixed.append("".join(letter for letter in letters if letter is not None))
        return tuple(fixed)

    def matches(self, parts: tuple[str, ...]) -> bool:
        places = self._closure({0})
        for part in parts:
            places = self._closure({after for place in places for after in self._after(place, part)})
        return len(self.components) in places

    def _after(self, place: int, part: str) -> tuple[int, ...]:
        if place == len(self.components):
            return ()
        component = self.components[place]
        if isinstance(component, str):
            return (place,)
        return (place + 1,) if _name_fits(component, part) else ()

    def _closure(self, places: set[int]) -> set[int]:
        """A `**` may stand for no directory at all."""
        reached = set(places)
        for place in sorted(places):
            while place < len(self.components) and self.components[place] == _DEEP:
                place += 1
                reached.add(place)
        return reached


def parse_glob(text: str) -> GlobPattern:
    """Raises FileRefused (`pattern`)."""
    if not text or len(text.encode()) > PATTERN_BYTES:
        raise FileRefused("pattern", f"a pattern has 1 to {PATTERN_BYTES} bytes; ** lists all files")
    return _parsed(text)


def _parsed(text: str) -> GlobPattern:
    plain = text.removeprefix("./")
    if plain.endswith("/"):
        plain += _DEEP
    if plain.startswith("/"):
        raise FileRefused("pattern", "the pattern is absolute; give it relative to the workspace, for example **/*.md")
    parts = plain.split("/")
    if any(part in ("", ".", "..") for part in parts) or len(parts) > PATH_DEPTH:
        raise FileRefused("pattern", "the pattern is not a plain relative path; ** lists all files")
    return GlobPattern(text, tuple(_DEEP if part == _DEEP else _tokens(part) for part in parts))


def composed(pattern: GlobPattern) -> GlobPattern:
    """The same pattern with composed letters, to notice a name that differs in nothing else. Some letters have no composed form
    and become longer: such a pattern is still the one that was taken."""
    return _parsed(unicodedata.normalize("NFC", pattern.text))


def _tokens(part: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    place = 0
    while place < len(part):
        character = part[place]
        if character == "*":
            if not tokens or tokens[-1] is not _Star:
                tokens.append(_Star)
            place += 1
        elif character == "?":
            tokens.append(_ANY)
            place += 1
        elif character == "[":
            token, place = _class(part, place)
            tokens.append(token)
        else:
            tokens.append(_One(((character, character),)))
            place += 1
    return tuple(tokens)


def _class(part: str, start: int) -> tuple[_One, int]:
    """The set that begins at `start`, and the place behind it. A `]` right at its beginning belongs to the set."""
    first = start + 1 + (part[start + 1 : start + 2] in ("!", "^"))
    end = part.find("]", first + 1)
    if end < 0:
        raise FileRefused("pattern", "a '[' has no ']'; write [[] for a literal '['")
    ranges: list[tuple[str, str]] = []
    inner = part[first:end]
    place = 0
    while place < len(inner):
        if inner[place + 1 : place + 2] == "-" and place + 2 < len(inner):
            ranges.append((inner[place], inner[place + 2]))
            place += 3
        else:
            ranges.append((inner[place], inner[place]))
            place += 1
    return _One(tuple(ranges), negated=first > start + 1), end + 1


def _name_fits(tokens: tuple[_Token, ...], name: str) -> bool:
    """Remembers only the last star: what stood before it needs no second look."""
    token = place = 0
    star, star_place = -1, 0
    while place < len(name):
        if token < len(tokens) and (one := tokens[token]) is not _Star and one.fits(name[place]):
            token, place = token + 1, place + 1
        elif token < len(tokens) and tokens[token] is _Star:
            star, star_place = token, place
            token += 1
        elif star >= 0:
            star_place += 1
            token, place = star + 1, star_place
        else:
            return False
    return all(one is _Star for one in tokens[token:])
