import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.conversations.titles import branch_title, checked_title, cut, title_from
from agent_builder.protocol.errors import InvalidRequest
from agent_builder.protocol.limits import TITLE_CHARS, TITLE_FROM_MESSAGE_CHARS
from agent_builder.storage.conversations import UNTITLED

FAMILY = "👩‍👩‍👧‍👦"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


@pytest.mark.parametrize("text", ["", "   ", "\t\n", "\u3000\u200b", "\u200b", "\u00ad", "\u2060\ufeff", "\u3164", "\u2800\u115f", "\u0301", "\U000e0020", "\u200d"])
def test_a_title_in_which_nothing_is_visible_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_title(text)


@pytest.mark.parametrize(
    "text",
    ["a\u0000b", "line1\nline2", "a\rb", "a\tb", "a\u007fb", "a\u0085b", "a\u2028b", "a\u2029b", "\u202eevil", "a\u2066b", "a\u200fb", "a\u061cb", "a\ud800b"],
)
def test_control_and_bidi_characters_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="control"):
        checked_title(text)


@pytest.mark.parametrize("text", ["a", "<img src=x onerror=alert(1)>", "中文标题", FAMILY, "🫨", "e\u0301", "שלום", "#", "a" * TITLE_CHARS, "长" * TITLE_CHARS])
def test_visible_titles_are_taken_as_they_are(text: str) -> None:
    assert checked_title(text) == text
    assert checked_title(f" \u3000{text}\n") == text


@pytest.mark.parametrize("text", ["a" * (TITLE_CHARS + 1), "长" * 10_000, FAMILY * 40])
def test_a_title_over_the_bound_is_refused_with_the_bound(text: str) -> None:
    with pytest.raises(InvalidRequest, match="at most 120 characters"):
        checked_title(text)


def test_blanks_at_the_ends_do_not_count() -> None:
    assert checked_title(" " * 50 + "a" * TITLE_CHARS + " " * 50) == "a" * TITLE_CHARS


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("Plan a trip", "Plan a trip"),
        ("\n\n  \u3000\n  second   line\tis first \nthird", "second line is first"),
        ("a\u0000b\u202ec", "abc"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("word " * 20, "word word word word word word word word word word word word…"),
        ("\u200b\n\u3000", UNTITLED),
        ("\u202e", UNTITLED),
    ],
)
def test_the_first_visible_line_becomes_the_title(message: str, title: str) -> None:
    assert title_from(message) == title


@pytest.mark.parametrize("cluster", [FAMILY, "🇩🇪", "👍🏽", "e\u0301", "❤\ufe0f", "1\ufe0f\u20e3", ENGLAND, "क्षि"])
@pytest.mark.parametrize("shift", range(12))
def test_a_cut_never_splits_what_is_seen_as_one_character(cluster: str, shift: int) -> None:
    text = "x" * shift + cluster * 60
    kept = cut(text, TITLE_FROM_MESSAGE_CHARS)
    assert len(kept) <= TITLE_FROM_MESSAGE_CHARS
    body = kept.removesuffix("…").removeprefix("x" * shift)
    assert kept.endswith("…")
    assert body
    assert body == cluster * (len(body) // len(cluster))


def test_one_endless_character_is_broken_after_all() -> None:
    assert cut("e" + "\u0301" * 500, 60) == "e" + "\u0301" * 58 + "…"


@given(st.text(alphabet=st.characters(), max_size=300))
def test_a_title_from_any_message_is_a_title(message: str) -> None:
    title = title_from(message)
    assert len(title) <= TITLE_FROM_MESSAGE_CHARS
    assert checked_title(title) == title


@given(st.text(alphabet=st.characters(), max_size=200))
def test_a_checked_title_is_short_visible_and_on_one_line(text: str) -> None:
    try:
        title = checked_title(text)
    except InvalidRequest:
        return
    assert 1 <= len(title) <= TITLE_CHARS
    assert len(title.splitlines()) == 1
    assert not {unicodedata.category(char) for char in title} & {"Cc", "Cs", "Zl", "Zp"}
    assert title == title.strip()


@pytest.mark.parametrize(
    ("title", "branched"),
    [("Plan", "Plan (2)"), ("Plan (2)", "Plan (3)"), ("Plan (99)", "Plan (100)"), ("f(2)", "f(2) (2)"), ("Plan (02)", "Plan (02) (2)"),
     ("Plan ()", "Plan () (2)"), ("Plan (9999)", "Plan (9999) (2)"), ("Plan (²)", "Plan (²) (2)"), ("x" * 120, "x" * 115 + "… (2)")],
)
def test_a_branch_has_a_title_of_its_own(title: str, branched: str) -> None:
    assert branch_title(title) == branched
    assert checked_title(branched) == branched


@given(st.text(min_size=1, max_size=TITLE_CHARS))
def test_a_branch_of_any_title_has_a_title(text: str) -> None:
    try:
        title = checked_title(text)
    except InvalidRequest:
        return
    assert checked_title(branch_title(title)) == branch_title(title) != title
