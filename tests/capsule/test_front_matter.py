import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.capsule.front_matter import FrontMatterFault, parse_front_matter
from agent_builder.protocol.limits import SKILL_FRONT_MATTER_LINES


def values(*lines: str) -> dict[str, str]:
    return parse_front_matter("\n".join(("---", *lines, "---", "body", ""))).values


def test_plain_and_quoted_values_are_read() -> None:
    assert values("name: greet", 'version: "1.0"', "license: 'it''s free' # or not", "description: Use it: often # always", "empty:") == {
        "name": "greet", "version": "1.0", "license": "it's free", "description": "Use it: often",
    }


def test_folded_literal_and_continued_values_are_read_as_yaml_reads_them() -> None:
    assert values("a: >-", "  one", "  two", "", "  three", "b: |", "  one", "    two", "c: one", "  two", "d:", "  one", "  two") == {
        "a": "one two\nthree", "b": "one\n  two", "c": "one two", "d": "one two",
    }


def test_keys_below_a_key_are_read_and_lists_and_deeper_levels_passed_over() -> None:
    assert values(
        "allowed-tools: Bash(git:*) Read", "tags: [a, b]", "more: {a: 1}", "dependencies:", "  - one", "  - two", "others:", "- one", "metadata:",
        "  author: x", '  version: "2.1"', "  deep:", "    deeper: y", "  list: [a]", "name: z",
    ) == {"allowed-tools": "Bash(git:*) Read", "metadata.author": "x", "metadata.version": "2.1", "name": "z"}


def test_the_body_is_what_follows_whatever_stands_in_it() -> None:
    found = parse_front_matter("\ufeff---\r\nname: a\r\n---\r\n# Title\r\n---\r\nrest\r\n")
    assert (found.values, found.body, found.lines) == ({"name": "a"}, "# Title\n---\nrest\n", {"name": 2})


@pytest.mark.parametrize(("lines", "line"), [
    (["name greet"], 2), (["name:greet"], 2), (["a: 1", "a: 2"], 3), (["  a: 1"], 2), (["a: &x 1"], 2), (["a: *x"], 2), (["a: !!str 1"], 2),
    (['a: "open'], 2), (["a: 'open"], 2), (['a: "x" y'], 2), (["a: [1, 2"], 2), (['a: "\\q"'], 2), (["a: >", "\tx"], 3), (["a:", "\tx: 1"], 3),
    (["? a", ": b"], 2), (["a: @x"], 2), (["a: b", "\tc"], 3), (["- a"], 2),
])
def test_anything_else_is_refused_with_its_line(lines: list[str], line: int) -> None:
    with pytest.raises(FrontMatterFault) as fault:
        values(*lines)
    assert fault.value.line == line


@pytest.mark.parametrize("text", ["", "name: a\n", "----\nname: a\n---\n", "---\nname: a\n", " ---\nname: a\n---\n"])
def test_a_file_without_front_matter_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterFault) as fault:
        parse_front_matter(text)
    assert fault.value.line == 1


def test_its_lines_are_bounded() -> None:
    lines = [f"k{number}: v" for number in range(SKILL_FRONT_MATTER_LINES - 1)]
    assert len(values(*lines)) == len(lines)
    with pytest.raises(FrontMatterFault):
        values(*lines, "one: more")


@given(st.lists(st.text(alphabet=st.sampled_from("ab: #'\"\t->|[]{}&*\\\n"), max_size=12), max_size=12))
def test_whatever_stands_there_is_read_or_refused(lines: list[str]) -> None:
    text = "---\n" + "\n".join(lines) + "\n---\nbody\n"
    try:
        placed = list(parse_front_matter(text).lines.values())
    except FrontMatterFault as fault:
        placed = [fault.line]
    assert all(1 <= line <= text.count("\n") for line in placed)
