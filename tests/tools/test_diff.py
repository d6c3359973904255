import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_builder.protocol.limits import DIFF_LINE_BYTES, DIFF_PAIRS
from agent_builder.tools.diff import changed_lines, unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "long line of text"]), max_size=30)


def test_a_small_change_is_one_hunk_with_three_lines_around_it() -> None:
    old = "".join(f"{number}\n" for number in range(1, 101))
    diff = unified_diff("n.md", old, old.replace("50\n", "fifty\n"))
    assert diff == "--- n.md\n+++ n.md\n@@ -47,7 +47,7 @@\n 47\n 48\n 49\n-50\n+fifty\n 51\n 52\n 53\n"


def test_a_new_file_and_an_emptied_file() -> None:
    assert unified_diff("n.md", None, "a\nb") == "--- (no file)\n+++ n.md\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
    assert unified_diff("n.md", "a\n", "") == "--- n.md\n+++ n.md\n@@ -1 +0,0 @@\n-a\n"


def test_what_the_eye_does_not_see_is_spelled_out() -> None:
    diff = unified_diff("n.md", "x\n", "a\u202eb\u200bc\x1b[31m\td\n")
    assert "+a⟦U+202E⟧b⟦U+200B⟧c⟦U+001B⟧[31m\td\n" in diff


def test_a_line_that_differs_from_its_counterpart_invisibly_shows_the_difference() -> None:
    diff = unified_diff("n.md", "中 文\n❤ 好\n", "中\u3000文\n❤\ufe0f 好\n")
    assert diff.endswith("-中 文\n-❤ 好\n+中⟦U+3000⟧文\n+❤⟦U+FE0F⟧ 好\n")
    assert unified_diff("n.md", "\u3000旧的\n", "\u3000新的\n").endswith("-\u3000旧的\n+\u3000新的\n")


def test_hidden_characters_of_the_path_are_spelled_too() -> None:
    assert unified_diff("no\u200btes\u3164.md", "a\n", "b\n").startswith("--- no⟦U+200B⟧tes⟦U+3164⟧.md\n+++ no⟦U+200B⟧tes⟦U+3164⟧.md\n")


def test_a_few_lines_that_are_repeated_often_are_one_block() -> None:
    old, new = "a\nb\n" * 127, "b\na\na\n" * 85
    assert len(old.splitlines()) * len(new.splitlines()) <= DIFF_PAIRS
    diff = unified_diff("n.md", old, new)
    assert diff.count("@@ -") == 1
    assert changed_lines(old, new) == (255, 254)


def test_carriage_returns_are_shown_where_endings_differ() -> None:
    assert "␍" not in unified_diff("n.md", "a\r\nb\r\n", "a\r\nc\r\n")
    assert "-a␍\n" in unified_diff("n.md", "a\r\n", "a\n")


def test_the_replacement_text_is_shown_as_it_is() -> None:
    assert "+$& \\1 ${x} <b> &amp;\n" in unified_diff("n.md", "x\n", "$& \\1 ${x} <b> &amp;\n")


def test_of_a_long_line_the_changed_part_is_whole_and_the_rest_counted() -> None:
    old = "a" * 5000 + "OLD" + "b" * 5000
    diff = unified_diff("n.md", old + "\n", old.replace("OLD", "N" * DIFF_LINE_BYTES * 4) + "\n")
    assert "N" * DIFF_LINE_BYTES * 4 in diff
    assert "characters unchanged⟧" in diff
    assert len(diff) < DIFF_LINE_BYTES * 8


def test_changed_lines_are_counted() -> None:
    assert changed_lines("a\nb\nc\n", "a\nX\nY\nc\n") == (2, 1)


@pytest.mark.parametrize("size", [300, 20_000])
def test_long_repetitive_files_are_compared_quickly_and_exactly(size: int) -> None:
    assert changed_lines("x\n" * size, "y\n" + "x\n" * (size // 2) + "y\n")[0] >= 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(LINES, LINES, st.booleans(), st.booleans())
def test_applying_the_diff_makes_the_new_text_of_the_old_one(tmp_path: Path, old: list[str], new: list[str], old_end: bool, new_end: bool) -> None:
    before = "\n".join(old) + "\n" * (old_end and bool(old))
    after = "\n".join(new) + "\n" * (new_end and bool(new))
    target = tmp_path / "file"
    target.write_text(before)
    if before == after:
        return
    diff = unified_diff("file", before, after)
    done = subprocess.run(["git", "apply", "-p0"], cwd=tmp_path, input=diff.encode(), capture_output=True)
    assert done.returncode == 0, (diff, done.stderr)
    assert (target.read_text() if target.exists() else "") == after
