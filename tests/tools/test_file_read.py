import os

import pytest

from agent_builder.protocol.limits import FILE_BYTES, READ_BYTES, READ_LINES, READ_RESULT_BYTES
from tests.support.capability import ToolRun, put


async def read(run: ToolRun, **arguments: object) -> tuple[str, str]:
    """Heading and text."""
    result = await run.call("file/read_text", **arguments)
    assert result.outcome == "ok", result.text
    heading, _, text = result.text.partition("\n")
    return heading, text


async def test_a_small_file_is_shown_whole_under_one_line(run: ToolRun) -> None:
    put(run.workspace, "notes.md", "a\nb\n")
    assert await read(run, path="notes.md") == ("notes.md: 2 lines, 4 bytes", "a\nb\n")


async def test_a_leading_dot_and_slash_say_nothing(run: ToolRun) -> None:
    put(run.workspace, "notes.md", "a\n")
    assert (await read(run, path="./notes.md"))[1] == "a\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"a\r\nb\r\n", "CRLF line endings"), (b"a\r\nb\n", "mixed line endings"), (b"\xef\xbb\xbfa\n", "begins with a BOM"),
        (b"a", "no newline at the end"),
    ],
)
async def test_what_the_eye_does_not_see_is_told_and_not_altered(run: ToolRun, data: bytes, told: str) -> None:
    put(run.workspace, "a.txt", data)
    heading, text = await read(run, path="a.txt")
    assert told in heading
    assert text.encode() == data


async def test_a_long_file_is_read_on_from_the_line_that_the_heading_names(run: ToolRun) -> None:
    lines = [f"line {number:04} of the file\n" for number in range(1, 301)]
    put(run.workspace, "big.py", "".join(lines))
    heading, text = await read(run, path="big.py")
    count = text.count("\n")
    assert heading == (
        f"big.py: lines 1-{count} of 300, {len(''.join(lines))} bytes in all; for more call file_read_text with start_line {count + 1}"
    )
    heading, rest = await read(run, path="big.py", start_line=count + 1)
    assert text + rest == "".join(lines)
    assert "for more" not in heading


@pytest.mark.parametrize(("size", "whole"), [(READ_BYTES, True), (READ_BYTES + 1, False)])
async def test_exactly_4096_bytes_are_one_read(run: ToolRun, size: int, whole: bool) -> None:
    put(run.workspace, "a.txt", ("x" * 63 + "\n") * (size // 64) + "x" * (size % 64))
    result = await run.call("file/read_text", path="a.txt")
    assert result.receipt["truncated"] is not whole
    assert len(result.text.encode()) <= READ_RESULT_BYTES


@pytest.mark.parametrize(("lines", "whole"), [(READ_LINES, True), (READ_LINES + 1, False)])
async def test_exactly_256_lines_are_one_read(run: ToolRun, lines: int, whole: bool) -> None:
    put(run.workspace, "a.txt", "x\n" * lines)
    assert (await run.call("file/read_text", path="a.txt")).receipt["truncated"] is not whole


async def test_a_line_that_is_too_long_is_cut_at_a_code_point_and_says_so(run: ToolRun) -> None:
    put(run.workspace, "a.txt", "中" * 5000)
    heading, text = await read(run, path="a.txt")
    assert "line 1 of 1 is too long to be shown whole; file_read_text cannot show the rest of it, file_grep shows it around a match" in heading
    assert "start_line" not in heading
    assert text == "中" * (READ_BYTES // 3)


async def test_behind_a_line_that_is_too_long_the_heading_says_how_to_read_on(run: ToolRun) -> None:
    put(run.workspace, "a.txt", "x" * 5000 + "\nsecond\n")
    heading, _ = await read(run, path="a.txt")
    assert "for the lines behind it call file_read_text with start_line 2" in heading
    assert (await read(run, path="a.txt", start_line=2))[1] == "second\n"


async def test_a_start_behind_the_end_is_refused_with_the_number_of_lines(run: ToolRun) -> None:
    put(run.workspace, "a.txt", "a\nb\n")
    result = await run.call("file/read_text", path="a.txt", start_line=3)
    assert (result.outcome, result.text) == ("refused", "a.txt has only 2 lines; call again without start_line")


async def test_a_missing_file_is_refused_with_the_names_that_exist(run: ToolRun) -> None:
    for path in ("notes.md", "docs/readme.md", "zzz.txt"):
        put(run.workspace, path, "x")
    result = await run.call("file/read_text", path="readme.md")
    assert (result.outcome, result.code) == ("refused", "missing")
    assert result.text == "there is no file readme.md; files here are: docs/readme.md, notes.md, zzz.txt"


@pytest.mark.parametrize(("path", "why"), [
    ("/docs/readme.md", "the path is absolute; give it relative to the workspace"), ("docs", "docs is a directory, not a file"),
    (".", "the path is not in its plain form (no '.', no '//', no '/' at the end)"),
])
async def test_a_path_that_cannot_be_a_file_is_refused_with_the_names_that_exist(run: ToolRun, path: str, why: str) -> None:
    put(run.workspace, "docs/readme.md", "x")
    assert (await run.call("file/read_text", path=path)).text == f"{why}; files here are: docs/readme.md"


async def test_a_file_of_the_same_name_with_another_ending_comes_first(run: ToolRun) -> None:
    for path in ("a.md", "notes.md"):
        put(run.workspace, path, "x")
    assert (await run.call("file/read_text", path="notes.txt")).text == "there is no file notes.txt; files here are: notes.md, a.md"


async def test_in_an_empty_workspace_a_missing_file_is_told_plainly(run: ToolRun) -> None:
    assert (await run.call("file/stat", path="a.md")).text == "there is no file a.md; the workspace is empty"


async def test_the_names_given_with_a_missing_file_are_bounded(run: ToolRun) -> None:
    for number in range(300):
        put(run.workspace, f"{number:03}-{'n' * 40}", "")
    result = await run.call("file/read_text", path="x" * 200)
    assert result.text.endswith(", …")
    assert len(result.text.encode()) < 2000


async def test_binary_and_too_large_files_are_refused_by_their_reason(run: ToolRun) -> None:
    put(run.workspace, "a.bin", b"a\0b")
    put(run.workspace, "b.bin", b"\xff\xfe")
    put(run.workspace, "c.txt", b"x" * (FILE_BYTES + 1))
    assert [(await run.call("file/read_text", path=path)).code for path in ("a.bin", "b.bin", "c.txt")] == ["not_text", "not_text", "too_large"]


async def test_the_receipt_names_content_and_path_and_holds_no_text(run: ToolRun) -> None:
    put(run.workspace, "a.txt", "the secret words\n")
    receipt = (await run.call("file/read_text", path="a.txt")).receipt
    assert receipt == {
        "content_digest": receipt["content_digest"], "path_digest": receipt["path_digest"], "file_bytes": 17, "lines": 1, "first_line": 1,
        "last_line": 1, "shown_bytes": 17, "truncated": False, "bytes": 41,
    }
    assert "secret" not in str(run.events)


async def test_stat_tells_size_lines_traits_and_digest(run: ToolRun) -> None:
    put(run.workspace, "a.txt", "a\r\n")
    put(run.workspace, "a.bin", b"\0")
    result = await run.call("file/stat", path="a.txt")
    assert result.text == f"a.txt: text file, 1 line, 3 bytes, CRLF line endings, sha256 {result.receipt['content_digest']}"
    assert (await run.call("file/stat", path="a.bin")).text.startswith("a.bin: binary file, 1 bytes")


async def test_stat_of_a_directory_counts_its_entries(run: ToolRun) -> None:
    put(run.workspace, "d/a.txt", "x")
    result = await run.call("file/stat", path="d")
    assert result.text == "d: directory, 1 entry"
    os.rename(run.workspace / "d", run.workspace / "e")
    put(run.workspace, "d/a.txt", "x")
    again = await run.call("file/stat", path="./d")
    assert again.text == result.text
    assert again.receipt["path_digest"] != result.receipt["path_digest"]
    os.symlink("d", run.workspace / "link")
    assert (await run.call("file/stat", path="link")).code == "symlink"


async def test_the_longest_path_leaves_room_for_the_text(run: ToolRun) -> None:
    path = "/".join(["😀" * 63] * 4)
    put(run.workspace, path, "中" * 1300 + "\n" + "y" * 300)
    result = await run.call("file/read_text", path=path)
    assert len(result.text.encode()) <= READ_RESULT_BYTES
    assert "中" * 1300 in result.text
