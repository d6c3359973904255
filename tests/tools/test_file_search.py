import asyncio
import unicodedata

import pytest

from agent_builder.protocol.limits import (
    FILE_BYTES,
    SEARCH_FILES,
    SEARCH_MATCHES,
    SEARCH_READ_BYTES,
    SEARCH_RESULT_BYTES,
)
from agent_builder.tools.calls import CapabilityResult
from tests.support.capability import ToolRun, put

NFD = unicodedata.normalize("NFD", "résumé.md")


async def glob(run: ToolRun, pattern: str) -> list[str]:
    result = await run.call("file/glob", pattern=pattern)
    assert result.outcome == "ok", result.text
    return result.text.split("\n")[1:]


async def grep(run: ToolRun, pattern: str, **arguments: object) -> CapabilityResult:
    return await run.call("file/grep", pattern=pattern, **arguments)


@pytest.fixture
def names(run: ToolRun) -> ToolRun:
    for path in ("src/app/[locale]/(auth)/page.tsx", ".env.sample", "README.MD", NFD, "notes.md"):
        put(run.workspace, path, "x\n")
    return run


async def test_an_exact_path_is_taken_literally(names: ToolRun) -> None:
    assert (await names.call("file/read_text", path="src/app/[locale]/(auth)/page.tsx")).outcome == "ok"


async def test_a_literal_bracket_is_written_as_a_set(names: ToolRun) -> None:
    assert await glob(names, "src/app/[[]locale]/**") == ["src/app/[locale]/(auth)/page.tsx"]
    assert await glob(names, "**/page.tsx") == ["src/app/[locale]/(auth)/page.tsx"]
    assert await glob(names, "src/app/[locale]/**") == ["note: [...] is a set of characters; write [[] for a literal ["]


async def test_hidden_files_and_case_follow_one_rule(names: ToolRun) -> None:
    assert await glob(names, "*.md") == ["notes.md", NFD]
    assert await glob(names, "*") == [".env.sample", "README.MD", "notes.md", NFD, "src/"]
    assert await glob(names, "src/") == await glob(names, "src/**") == ["src/app/[locale]/(auth)/page.tsx"]


async def test_a_name_that_differs_only_in_composition_is_pointed_out(names: ToolRun) -> None:
    (note,) = await glob(names, "résumé.md")
    assert note.startswith("note: stored with decomposed or composed letters")
    assert NFD in note
    assert await glob(names, NFD) == [NFD]


async def test_results_are_in_path_order_and_git_is_never_searched(run: ToolRun) -> None:
    for path in ("b", "a/z", "a-b", ".git/config", "a.txt"):
        put(run.workspace, path, "needle\n")
    assert await glob(run, "**") == ["a-b", "a.txt", "a/z", "b"]
    assert await glob(run, ".git/**") == []
    assert "config" not in (await grep(run, "needle")).text
    assert (await grep(run, "needle", path=".git")).code == "git"


async def test_at_most_128_matches_are_given_and_the_bound_is_named(run: ToolRun) -> None:
    for number in range(SEARCH_MATCHES):
        put(run.workspace, f"{number:03}", "")
    assert len(await glob(run, "**")) == SEARCH_MATCHES
    put(run.workspace, "999", "")
    assert (await glob(run, "*"))[-1] == "not complete, stopped at the bound of: matches"


async def test_links_are_counted_and_not_listed(run: ToolRun) -> None:
    (run.workspace / "link").symlink_to("/etc")
    assert await glob(run, "**") == ["left out: 1 symlink"]


@pytest.fixture
def lines(run: ToolRun) -> ToolRun:
    put(run.workspace, "g.txt", "html(json.data)\na || b\ni++\n{ name }\nplain\n")
    put(run.workspace, "d/h.txt", "plain too\r\n")
    return run


@pytest.mark.parametrize(("pattern", "hit"), [("html(json.data)", 1), ("a || b", 2), ("i++", 3), ("{ name", 4)])
async def test_a_literal_finds_exactly_its_line(lines: ToolRun, pattern: str, hit: int) -> None:
    result = await grep(lines, pattern)
    heading, match = result.text.split("\n")
    assert heading == f"1 line with {pattern} (literal) in 1 of 2 files searched"
    assert match.startswith(f"g.txt:{hit}: ")


async def test_nothing_found_says_how_much_was_searched(lines: ToolRun) -> None:
    assert (await grep(lines, "\\\\")).text == "0 lines with \\\\ (literal) in 0 of 2 files searched"


async def test_a_search_can_be_kept_to_a_directory_or_file(lines: ToolRun) -> None:
    assert (await grep(lines, "plain", path="d")).text == "1 line with plain (literal) in 1 of 1 file searched\nd/h.txt:1: plain too"
    assert (await grep(lines, "plain", path="g.txt")).text.endswith("g.txt:5: plain")
    assert (await grep(lines, "plain", path="./")).receipt["files_searched"] == 2
    assert "files here are: " in (await grep(lines, "plain", path="gone")).text


async def test_a_simple_regex_works_and_says_so(lines: ToolRun) -> None:
    assert (await grep(lines, "^i..$", regex=True)).text == "1 line with ^i..$ (regex) in 1 of 2 files searched\ng.txt:3: i++"


@pytest.mark.parametrize("pattern", ["html(", "a|b", "(a)\\1", "x{2,3}", "(a+)+$", "a?a?aa$", "[a-a]+$", "[^]"])
async def test_any_other_regex_is_refused_and_nothing_searched(lines: ToolRun, pattern: str) -> None:
    result = await grep(lines, pattern, regex=True)
    assert (result.outcome, result.code) == ("refused", "pattern")


async def test_an_empty_pattern_is_refused(lines: ToolRun) -> None:
    assert [(await grep(lines, "")).code, (await lines.call("file/glob", pattern="")).code] == ["pattern", "pattern"]


async def test_binary_and_large_files_are_named_as_not_searched(run: ToolRun) -> None:
    put(run.workspace, "a.txt", "a" * 60_000 + "!")
    put(run.workspace, "b.bin", b"\0" * FILE_BYTES)
    put(run.workspace, "c.txt", b"x" * (FILE_BYTES + 1))
    result = await grep(run, "a!")
    assert "not searched: b.bin (not_text), c.txt (too_large)" in result.text
    assert len(result.text.encode()) <= SEARCH_RESULT_BYTES


async def test_of_a_long_line_the_part_around_the_match_is_shown_on_character_bounds(run: ToolRun) -> None:
    put(run.workspace, "c.txt", "中" * 200_000 + "needle" + "文" * 100_000)
    match = (await grep(run, "needle")).text.split("\n")[1]
    assert "needle" in match
    assert len(match.encode()) < 400


async def test_a_result_has_at_most_12_kib(run: ToolRun) -> None:
    for number in range(100):
        put(run.workspace, f"{number:03}-{'x' * 200}", ("y" * 300 + "\n") * 2)
    result = await grep(run, "y")
    assert SEARCH_RESULT_BYTES - 3000 < len(result.text.encode()) <= SEARCH_RESULT_BYTES
    assert result.text.endswith("stopped at the bound of: result bytes")


async def test_two_mebibytes_are_read_and_not_one_byte_more(run: ToolRun) -> None:
    for number in range(SEARCH_READ_BYTES // FILE_BYTES):
        put(run.workspace, f"{number}", b"x" * FILE_BYTES)
    assert "not complete" not in (await grep(run, "y")).text
    put(run.workspace, "z", b"y")
    assert (await grep(run, "y ")).text.endswith("stopped at the bound of: bytes read")


async def test_1024_files_are_searched_and_not_one_more(run: ToolRun) -> None:
    for number in range(SEARCH_FILES):
        put(run.workspace, f"{number:04}", "x")
    assert "not complete" not in (await grep(run, "y")).text
    put(run.workspace, "zzzz", "y")
    assert (await grep(run, "yy")).text.endswith("stopped at the bound of: files")


async def test_a_search_ends_after_one_second(run: ToolRun) -> None:
    for number in range(5):
        put(run.workspace, f"{number}", "x\n" * 10)
    real = run.clock.monotonic
    looks = iter(range(10_000))
    run.clock.monotonic = lambda: real() + 0.2 * next(looks)  # type: ignore[method-assign]
    result = await grep(run, "y")
    assert "stopped at the bound of: time" in result.text


async def test_the_event_loop_goes_on_while_a_search_works(run: ToolRun) -> None:
    put(run.workspace, "c.txt", b"a" * 900_000)
    task = asyncio.create_task(grep(run, "a" * 200 + "b", regex=True))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 2  # a search on the loop itself would be over within its first turn
    assert (await task).outcome == "ok"


async def test_a_pattern_that_grows_when_it_is_composed_is_searched_like_any_other(run: ToolRun) -> None:
    put(run.workspace, "a.md", "x")
    result = await run.call("file/glob", pattern="\u0958" * 170)
    assert (result.outcome, result.receipt["matches"]) == ("ok", 0)


async def test_files_that_are_no_text_count_among_the_files_that_one_search_reads(run: ToolRun) -> None:
    for number in range(SEARCH_FILES):
        put(run.workspace, f"{number:04}.bin", b"\0")
    put(run.workspace, "zzz.txt", "needle\n")
    result = await grep(run, "needle")
    assert result.receipt["bounds"] == ["files"]
    assert result.receipt["matches"] == 0
    (run.workspace / "0000.bin").unlink()
    assert (await grep(run, "eedle")).receipt["matches"] == 1


async def test_the_receipt_of_a_search_names_what_was_found_and_where(run: ToolRun) -> None:
    put(run.workspace, "d/a.txt", "needle\n")
    put(run.workspace, "e/a.txt", "needle\n")
    first, elsewhere = await grep(run, "needle", path="d"), await grep(run, "needle", path="e")
    assert first.receipt["path_digest"] != elsewhere.receipt["path_digest"]
    assert (await grep(run, "eedle", path="d")).receipt["content_digest"] == first.receipt["content_digest"]
    one = await grep(run, "needle", path="d/a.txt")
    assert (one.receipt["content_digest"], one.receipt["path_digest"]) == (first.receipt["content_digest"], first.receipt["path_digest"])
    put(run.workspace, "d/a.txt", "needles\n")
    assert (await grep(run, "needl", path="d")).receipt["content_digest"] != first.receipt["content_digest"]
    found = await run.call("file/glob", pattern="d/*")
    put(run.workspace, "d/b.txt", "x")
    again = await run.call("file/glob", pattern="d/**")
    assert found.receipt["path_digest"] == again.receipt["path_digest"] == first.receipt["path_digest"]
    assert found.receipt["content_digest"] != again.receipt["content_digest"]
