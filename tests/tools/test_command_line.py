import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_builder.protocol.limits import COMMAND_ARGUMENTS, COMMAND_BYTES
from agent_builder.tools.command_line import BUILTINS, CommandRefused, parse_command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pwd", ("pwd",)),
        ("  true\t", ("true",)),
        ("runtime-compile", ("runtime-compile",)),
        ("printf hi", ("printf", "hi")),
        ("printf '%s\\n' \"a b\" c\\ d ''", ("printf", "%s\\n", "a b", "c d", "")),
        ('printf "a\\n\\"\\\\\\$\\`"', ("printf", 'a\\n"\\$`')),
        ("printf 'a;b|c&d<e>f$g`h*i?j[k]{l}~m#n'", ("printf", "a;b|c&d<e>f$g`h*i?j[k]{l}~m#n")),
        ("printf a=b", ("printf", "a=b")),
        ("printf a#b 'x'y\"z\"", ("printf", "a#b", "xyz")),
        ("'printf' 学", ("printf", "学")),
    ],
)
def test_words_are_read_as_a_shell_reads_them(line: str, words: tuple[str, ...]) -> None:
    assert parse_command(line).words == words


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "empty"), ("ls", "allowed are"), ("python -c x", "allowed are"), ("git status", "allowed are"), ("pip install x", "allowed are"),
        ("printf $HOME", "substitution"), ("printf $(id)", "substitution"), ("printf `id`", "substitution"), ('printf "$x"', "substitution"),
        ('printf "`id`"', "substitution"), ("printf $'a'", "substitution"), ("X=1 printf a", "assignment"), ("PATH=/tmp true", "assignment"),
        ("printf a > f", "redirection"), ("printf < f", "redirection"), ("printf 2>&1", "redirection"), ("printf <<EOF", "redirection"),
        ("true; false", "second command"), ("true && false", "second command"), ("true &", "second command"), ("true | false", "pipe"),
        ("(true)", "subshell"), ("printf a)", "subshell"), ("{ true; }", "brace"), ("printf {a,b}", "brace"), ("printf *.py", "file pattern"),
        ("printf a?", "file pattern"), ("printf [ab]", "file pattern"), ("printf ~", "home"), ("true # x", "comment"), ("# x", "comment"),
        ("true\nfalse", "line break"), ("printf 'a\nb'", "line break"), ('printf "a\nb"', "line break"), ("printf a\\\nb", "line break"),
        ("printf a\x00", "control"), ("printf '\x1b'", "control"), ("printf 'a", "not closed"), ('printf "a', "not closed"), ("printf a\\", "backslash"),
        ("runtime-compile x", "no arguments"), ("printf -v x y", "assignment"), ("printf -vx y", "assignment"), ("! true", "allowed are"),
        ("command true", "allowed are"), ("exec true", "allowed are"), ("/bin/true", "allowed are"), ("True", "allowed are"), ("''", "allowed are"),
    ],
)
def test_everything_else_is_refused_by_its_name(line: str, why: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        parse_command(line)
    assert why in refused.value.sentence


def test_at_most_eight_arguments_and_1024_bytes() -> None:
    assert len(parse_command("printf" + " x" * COMMAND_ARGUMENTS).words) == COMMAND_ARGUMENTS + 1
    with pytest.raises(CommandRefused):
        parse_command("printf" + " x" * (COMMAND_ARGUMENTS + 1))
    assert parse_command("printf " + "x" * (COMMAND_BYTES - 7))
    with pytest.raises(CommandRefused):
        parse_command("printf " + "x" * (COMMAND_BYTES - 6))


def test_the_digest_is_of_the_words_and_not_of_their_spelling() -> None:
    assert parse_command("printf 'a'  b").digest == parse_command('printf a "b"').digest
    assert parse_command("printf 'a b'").digest != parse_command("printf a b").digest


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_characters="\x7f"), max_size=20), max_size=COMMAND_ARGUMENTS))
def test_quoted_words_come_back_unchanged(arguments: list[str]) -> None:
    words = ("printf", *arguments)
    line = shlex.join(words)
    if len(line.encode()) <= COMMAND_BYTES and not (arguments and arguments[0].startswith("-v")):
        assert parse_command(line).words == words


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(BUILTINS), st.lists(st.sampled_from(list("ab =\"'\\#%!^,:@+-/.é\t")), max_size=25).map("".join))
def test_what_is_accepted_bash_reads_as_the_same_words(name: str, rest: str) -> None:
    try:
        words = parse_command(f"{name} {rest}").words
    except CommandRefused:
        return
    shell = subprocess.run(
        ["bash", "--norc", "-c", f"set -- {rest}\nfor word; do printf '%s\\0' \"$word\"; done"],
        capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True,
    )
    assert [part.decode() for part in shell.stdout.split(b"\0")[:-1]] == list(words[1:])


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(line: str) -> None:
    try:
        command = parse_command(line)
    except (CommandRefused, UnicodeEncodeError):
        return
    assert command.compiles or command.words[0] in BUILTINS
