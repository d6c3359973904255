"""JSON as a provider writes it, read without guessing: no key twice, no NaN, no nesting that exhausts the stack."""

import json


class NotJson(ValueError):
    """The text is not one JSON value, or not one with a single meaning."""


def parse_json(text: str) -> object:
    """Raises NotJson."""
    try:
        return _PLAIN.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(type(error).__name__)) from error


def parse_json_once(text: str) -> object:
    """The same, and an object with one key twice is refused too. Slower: for what names and calls tools."""
    try:
        return _UNIQUE.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(type(error).__name__)) from error


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


_PLAIN = json.JSONDecoder(parse_constant=_no_constant)
_UNIQUE = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_unique)
