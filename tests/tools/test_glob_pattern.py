import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.capsule.paths import FileRefused
from agent_builder.protocol.limits import PATH_DEPTH, PATTERN_BYTES
from agent_builder.tools.glob_pattern import parse_glob


def matches(pattern: str, path: str) -> bool:
    return parse_glob(pattern).matches(tuple(path.split("/")))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.md", ["a.md", ".hidden.md", "学点.md"], ["a.MD", "d/a.md", "md"]),
        ("**/page.tsx", ["page.tsx", "a/page.tsx", "a/b/page.tsx"], ["a/page.tsx/b", "xpage.tsx"]),
        ("**", ["a", "a/b/c"], []),
        ("src/**", ["src/a", "src/a/b", "src"], ["srcx/a"]),
        ("src/", ["src/a", "src/a/b"], ["a/src/b"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/b/c", "x/a/b"]),
        ("src/app/[[]locale]/**", ["src/app/[locale]/(auth)/page.tsx"], ["src/app/l/page.tsx"]),
        ("[a-c]?[!x]", ["a1b", "c.y"], ["d1b", "a1x", "ab"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("./a*b*c", ["abc", "aXbYc", "abbcbc"], ["abcd"]),
        ("(auth)+$.{x}", ["(auth)+$.{x}"], ["auth"]),
    ],
)
def test_patterns_match_whole_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "a/../b", "a//b", "a/./b", "[abc", "x" * (PATTERN_BYTES + 1), "/".join("a" * (PATH_DEPTH + 1))])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(FileRefused) as refused:
        parse_glob(pattern)
    assert refused.value.reason == "pattern"


def test_the_fixed_beginning_is_known() -> None:
    assert parse_glob("src/app/[[]locale]/*.tsx").fixed_start == ("src", "app", "[locale]")
    assert parse_glob("src/*/x").fixed_start == ("src",)
    assert parse_glob("**/x").fixed_start == ()


def test_many_stars_are_no_burden() -> None:
    assert not matches("*a" * 200 + "b", "a" * 255)
    assert not matches("**/" * 30 + "b", "/".join("a" * 32))


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_within_a_name_it_agrees_with_the_shell(pattern: str, name: str) -> None:
    if pattern and name and "**" not in pattern:
        assert matches(pattern, name) == fnmatch.fnmatchcase(name, pattern)


@given(st.lists(st.sampled_from(["a", "b", "*", "**"]), min_size=1, max_size=6), st.lists(st.sampled_from("ab"), min_size=1, max_size=6))
def test_across_names_it_agrees_with_trying_everything(pattern: list[str], path: list[str]) -> None:
    def tried(rest: list[str], names: list[str]) -> bool:
        if not rest:
            return not names
        if rest[0] == "**":
            return tried(rest[1:], names) or (bool(names) and tried(rest, names[1:]))
        return bool(names) and rest[0] in ("*", names[0]) and tried(rest[1:], names[1:])

    assert matches("/".join(pattern), "/".join(path)) == tried(pattern, path)
