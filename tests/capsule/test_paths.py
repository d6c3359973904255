import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.capsule.paths import FileRefused, parse_path
from agent_builder.protocol.limits import NAME_BYTES, PATH_BYTES, PATH_DEPTH


@pytest.mark.parametrize("text", ["notes.md", "a/b/c.txt", "src/app/[locale]/(auth)/page.tsx", ".env", "学点/é.md", " a", "...", "a..b"])
def test_a_canonical_relative_path_is_accepted_as_it_is(text: str) -> None:
    assert parse_path(text).text == text


@pytest.mark.parametrize(
    "text",
    ["", "/etc/passwd", "..", "../x", "a/../../x", "a/..", ".", "a/./b", "a//b", "a/", "a\0b", "a\nb", "a\x7fb", "a\u202eb", "a\ud800b"],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(FileRefused) as refused:
        parse_path(text)
    assert refused.value.reason == "path"


@pytest.mark.parametrize("text", [".git", ".git/config", "a/.git/hooks/x", ".GIT/config"])
def test_the_git_directory_is_refused(text: str) -> None:
    with pytest.raises(FileRefused) as refused:
        parse_path(text)
    assert refused.value.reason == "git"


def test_a_name_of_a_write_in_progress_is_refused() -> None:
    with pytest.raises(FileRefused) as refused:
        parse_path("d/.agent-builder-new-0011")
    assert refused.value.reason == "reserved"


def test_a_name_has_at_most_255_bytes() -> None:
    assert parse_path("é" * (NAME_BYTES // 2) + "x")
    with pytest.raises(FileRefused):
        parse_path("é" * (NAME_BYTES // 2) + "xy")


def test_a_path_has_at_most_1024_bytes() -> None:
    longest = "/".join(["x" * 254, "x" * 254, "x" * 254, "x" * 254, "xxxx"])
    assert len(longest) == PATH_BYTES
    assert parse_path(longest)
    with pytest.raises(FileRefused):
        parse_path(longest + "x")


def test_a_path_has_at_most_32_components() -> None:
    assert parse_path("/".join("x" * PATH_DEPTH))
    with pytest.raises(FileRefused):
        parse_path("/".join("x" * (PATH_DEPTH + 1)))


PIECES = ["a", "/", ".", "..", "\0", " ", "é", ".git", "\n", "\ud800", ".agent-builder-", "x" * 300]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_what_is_accepted_never_leads_out_and_is_spelled_in_one_way(text: str) -> None:
    try:
        path = parse_path(text)
    except FileRefused:
        return
    assert path.text == text
    assert all(part not in ("", ".", "..", ".git") and "/" not in part and "\0" not in part for part in path.parts)
