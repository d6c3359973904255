import pytest

from agent_builder.tools.visible_text import bare, spelled, visible

HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200d\u200e\u2028\u202e\u2060\u2065\u2066\u2800\u3164\ufe00\ufeff\uffa0\ufff0"
    "\U000e0001\U000e0100\u00a0\u1680\u2002\u202f\u205f\x00\x1b\x7f\x85"
)


@pytest.mark.parametrize("character", HIDDEN)
def test_what_the_eye_does_not_see_is_spelled(character: str) -> None:
    assert visible(f"a{character}b") == f"a⟦U+{ord(character):04X}⟧b"


@pytest.mark.parametrize("line", ["plain text ~", "a\tb", "中文，全角（括号）", "中文\u3000中文", "\u3000\u3000段首缩进", "中\u3000a", "❤\ufe0f ok", "1\ufe0f\u20e3", "é ü ß"])
def test_ordinary_writing_stays_as_it_is(line: str) -> None:
    assert visible(line) == line


@pytest.mark.parametrize(("line", "shown"), [
    ("a\u3000b", "a⟦U+3000⟧b"), ("\u3000return 1", "⟦U+3000⟧return 1"), ("\u3000", "⟦U+3000⟧"), ("a\ufe0fb", "a⟦U+FE0F⟧b"), ("\ufe0f", "⟦U+FE0F⟧"),
    ("中\ufe00", "中⟦U+FE00⟧"),
])
def test_a_wide_space_and_an_emoji_selector_are_spelled_where_they_are_not_ordinary(line: str, shown: str) -> None:
    assert visible(line) == shown


def test_all_of_it_is_spelled_where_that_is_wanted() -> None:
    assert spelled("中\u3000文❤\ufe0f\t.") == "中⟦U+3000⟧文❤⟦U+FE0F⟧\t."


def test_two_lines_look_alike_when_they_differ_in_spaces_and_hidden_characters_only() -> None:
    assert bare("中\u3000文 a\u200bb\n") == bare("中文a b")
    assert bare("a b") == "ab"
    assert bare("ab") != bare("ac")
