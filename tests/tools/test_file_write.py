import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_builder.protocol.events import PermissionRequested
from agent_builder.protocol.limits import (
    DIFF_BYTES,
    EDIT_FRAGMENT_BYTES,
    FILE_BYTES,
    PREVIEW_BYTES,
    READ_BYTES,
    READ_RESULT_BYTES,
    WRITE_BYTES,
)
from agent_builder.tools.calls import CapabilityResult
from agent_builder.tools.file_write import plan_edit
from agent_builder.tools.reads import ReadRecord
from tests.support.capability import ToolRun, give_access_list, never, put

ASKED = "permission.requested"


async def edit(run: ToolRun, path: str, old: str, new: str) -> CapabilityResult:
    return await run.call("file/edit", path=path, old=old, new=new)


async def read_and_edit(run: ToolRun, path: str, old: str, new: str) -> CapabilityResult:
    await run.call("file/read_text", path=path)
    return await edit(run, path, old, new)


def diff(run: ToolRun) -> str:
    request = run.last(PermissionRequested)
    assert isinstance(request, PermissionRequested)
    return run.permissions.get(request.permission_id).diff or ""


async def test_an_approved_edit_changes_exactly_that(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "# T\r\nfix teh word\r\nend")
    result = await read_and_edit(run, "n.md", "teh", "the")
    assert result.outcome == "ok"
    assert target.read_bytes() == b"# T\r\nfix the word\r\nend"
    assert diff(run) == "--- n.md\n+++ n.md\n@@ -1,3 +1,3 @@\n # T\n-fix teh word\n+fix the word\n end\n\\ No newline at end of file\n"
    assert run.left_over() == []


async def test_a_denied_edit_changes_nothing_and_the_model_hears_the_reason(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "one\n")
    run.decision, run.reason = "deny", "not that file"
    result = await read_and_edit(run, "n.md", "one", "two")
    assert (result.outcome, result.code) == ("denied", "denied")
    assert '"not that file"' in result.text
    assert target.read_text() == "one\n"


@pytest.mark.parametrize("mode", [0o755, 0o640, 0o444])
async def test_the_mode_is_preserved(run: ToolRun, mode: int) -> None:
    target = put(run.workspace, "run.sh", "echo a\n", mode)
    assert (await read_and_edit(run, "run.sh", "echo a", "echo b")).outcome == "ok"
    assert target.stat().st_mode & 0o7777 == mode


async def test_crlf_bom_and_a_missing_last_line_feed_survive(run: ToolRun) -> None:
    crlf = put(run.workspace, "crlf.txt", b"alpha\r\nbeta\r\ngamma\r\n")
    bom = put(run.workspace, "bom.md", "\ufeff# 标题\nhello")
    await read_and_edit(run, "crlf.txt", "alpha\nbeta\n", "ALPHA\nBETA\n")
    await read_and_edit(run, "bom.md", "# 标题", "# 新标题")
    assert crlf.read_bytes() == b"ALPHA\r\nBETA\r\ngamma\r\n"
    assert bom.read_text() == "\ufeff# 新标题\nhello"


async def test_an_edit_of_an_unread_file_is_refused_with_its_text_which_then_counts_as_read(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "one\ntwo\n")
    refused = await edit(run, "n.md", "two", "2")
    assert (refused.outcome, refused.code) == ("refused", "not_read")
    assert "call file_edit again with the same arguments" in refused.text
    assert refused.text.endswith("n.md: 2 lines, 8 bytes\none\ntwo\n")
    assert ASKED not in run.types()
    assert (await edit(run, "n.md", "two", "2")).outcome == "ok"
    assert target.read_text() == "one\n2\n"


async def test_an_attached_file_counts_as_read(run: ToolRun) -> None:
    put(run.workspace, "n.md", "one\n")
    digest = (await run.call("file/stat", path="n.md")).receipt["content_digest"]
    run.reads.add("n.md", str(digest), (0, 4))
    assert (await edit(run, "n.md", "one", "two")).outcome == "ok"


async def test_a_file_longer_than_one_read_is_editable_where_it_was_read(run: ToolRun) -> None:
    lines = [f"{number:023}\n" for number in range(1, 209)]
    target = put(run.workspace, "big.py", "".join(lines))
    assert (await read_and_edit(run, "big.py", lines[9], "ten\n")).outcome == "ok"
    far = await edit(run, "big.py", lines[199], "two hundred\n")
    assert far.code == "not_read"
    assert lines[199] in far.text
    assert (await edit(run, "big.py", lines[199], "two hundred\n")).outcome == "ok"
    assert target.read_text() == "".join([*lines[:9], "ten\n", *lines[10:199], "two hundred\n", *lines[200:]])


async def test_two_edits_after_one_read(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "one two three\n")
    await read_and_edit(run, "n.md", "one", "1")
    assert (await edit(run, "n.md", "three", "3")).outcome == "ok"
    assert (await edit(run, "n.md", "1 two", "12")).outcome == "ok"
    assert target.read_text() == "12 3\n"


async def test_a_file_that_changed_since_it_was_read_counts_as_unread(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "one\n")
    await run.call("file/read_text", path="n.md")
    target.write_text("one more\n")
    assert (await edit(run, "n.md", "one", "1")).code == "not_read"
    assert target.read_text() == "one more\n"


@pytest.mark.parametrize(("text", "old"), [("aaa\n", "aa"), ("a.b.a.b.a\n", "a.b.a"), ("x = 1\nx = 1\n", "x = 1")])
async def test_a_text_that_occurs_more_than_once_is_refused_with_its_lines(run: ToolRun, text: str, old: str) -> None:
    target = put(run.workspace, "n.md", text)
    before = target.stat()
    result = await read_and_edit(run, "n.md", old, "b")
    assert (result.outcome, result.code) == ("refused", "old_not_unique")
    assert "occurs 2 times" in result.text
    assert (target.read_text(), target.stat().st_mtime_ns, target.stat().st_ino) == (text, before.st_mtime_ns, before.st_ino)
    assert ASKED not in run.types()


async def test_a_text_that_does_not_occur_is_refused_with_the_closest_lines(run: ToolRun) -> None:
    put(run.workspace, "n.md", "alpha\nfix teh word\nomega\n")
    result = await read_and_edit(run, "n.md", "fix the word", "fixed")
    assert result.code == "old_not_found"
    assert "the closest lines are:\n2: fix teh word" in result.text


async def test_a_miss_in_an_unread_file_also_shows_its_text(run: ToolRun) -> None:
    put(run.workspace, "n.md", "alpha\nfix teh word\nomega\n")
    assert (await edit(run, "n.md", "fix the word", "fixed")).text.endswith("n.md: 3 lines, 25 bytes\nalpha\nfix teh word\nomega\n")


async def test_edits_that_would_change_nothing_are_refused_without_asking(run: ToolRun) -> None:
    put(run.workspace, "n.md", "one\r\ntwo\r\n")
    codes = [(await read_and_edit(run, "n.md", old, new)).code for old, new in (("", "x"), ("one", "one"), ("one\n", "one\r\n"), ("one", "a\0"))]
    assert codes == ["empty_old", "no_change", "no_change", "not_text"]
    assert ASKED not in run.types()


async def test_fragments_have_at_most_4096_bytes(run: ToolRun) -> None:
    text = "x" * (EDIT_FRAGMENT_BYTES - 1) + "!"
    put(run.workspace, "n.md", text + "\n")
    refused = await edit(run, "n.md", text + "?", "y")
    assert (refused.code, "4096" in refused.text) == ("arguments", True)
    await edit(run, "n.md", text, "y")
    assert (await edit(run, "n.md", text, "y")).outcome == "ok"


async def test_a_file_may_grow_to_one_mebibyte_and_no_further(run: ToolRun) -> None:
    put(run.workspace, "n.md", "edge" + "\n" * (FILE_BYTES - 5))
    assert (await read_and_edit(run, "n.md", "edge", "edge!")).outcome == "ok"
    assert (await edit(run, "n.md", "edge!", "edge!!")).code == "too_large"


LITERAL = "$& $1 $$ $' $` \\1 \\g<0> \\n \\\\ %s {0} ${x} \\u4e2d"


async def test_the_new_text_is_taken_and_shown_literally(run: ToolRun) -> None:
    target = put(run.workspace, "r.txt", 'log("done");\n')
    await read_and_edit(run, "r.txt", 'log("done");', LITERAL)
    assert target.read_text() == LITERAL + "\n"
    assert f"+{LITERAL}\n" in diff(run)


async def test_a_new_file_is_created_privately(run: ToolRun) -> None:
    result = await run.call("file/write", path="new.txt", content="hello\n")
    assert result.outcome == "ok"
    assert (run.workspace / "new.txt").read_text() == "hello\n"
    assert (run.workspace / "new.txt").stat().st_mode & 0o777 == 0o600
    assert diff(run).startswith("--- (no file)\n+++ new.txt\n")
    assert (await edit(run, "new.txt", "hello", "bye")).outcome == "ok", "what it wrote counts as read"


async def test_a_file_in_a_missing_directory_is_refused_with_the_directories_that_exist(run: ToolRun) -> None:
    put(run.workspace, "docs/a.md", "x")
    put(run.workspace, "src/b.py", "x")
    result = await run.call("file/write", path="doc/b.md", content="x")
    assert (result.outcome, result.code) == ("refused", "missing")
    assert result.text == "nothing was written: there is no directory doc, and file_write makes none; directories here are: docs, ., src"


async def test_a_file_below_a_file_is_refused_in_the_same_way(run: ToolRun) -> None:
    put(run.workspace, "a.md", "x")
    result = await run.call("file/write", path="a.md/b.md", content="x")
    assert (result.code, result.text) == (
        "not_directory", "nothing was written: there is no directory a.md, and file_write makes none; directories here are: ."
    )


async def test_a_whole_file_is_replaced_only_after_it_was_read(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "old\n")
    refused = await run.call("file/write", path="n.md", content="new\n")
    assert (refused.code, refused.text.endswith("n.md: 1 line, 4 bytes\nold\n")) == ("not_read", True)
    assert (await run.call("file/write", path="n.md", content="new\n")).outcome == "ok"
    assert target.read_text() == "new\n"


@pytest.mark.parametrize(("size", "readable"), [(READ_BYTES, True), (READ_BYTES + 1, False)])
async def test_a_file_longer_than_one_read_names_the_true_reason(run: ToolRun, size: int, readable: bool) -> None:
    put(run.workspace, "big.py", ("x" * 23 + "\n") * (size // 24) + "y" * (size % 24))
    await run.call("file/read_text", path="big.py")
    result = await run.call("file/write", path="big.py", content="new\n")
    if readable:
        assert result.outcome == "ok"
        return
    assert result.code == "not_read"
    assert f"all its {size} bytes must have been read" in result.text
    assert "from line 171 of 171 on" in result.text
    assert "use file_edit" in result.text
    await run.call("file/read_text", path="big.py", start_line=171)
    assert (await run.call("file/write", path="big.py", content="new\n")).outcome == "ok"


async def test_a_replaced_file_keeps_its_bom_and_its_crlf_and_the_diff_shows_the_rest(run: ToolRun) -> None:
    target = put(run.workspace, "bom.md", "\ufeff# a\r\nb\r\n")
    await run.call("file/read_text", path="bom.md")
    await run.call("file/write", path="bom.md", content="# a\nc\n")
    assert target.read_bytes() == "\ufeff# a\r\nc\r\n".encode()
    assert "-b\n+c\n" in diff(run)


async def test_new_content_has_at_most_8192_bytes(run: ToolRun) -> None:
    assert (await run.call("file/write", path="a.txt", content="x" * WRITE_BYTES)).outcome == "ok"
    assert (await run.call("file/write", path="b.txt", content="x" * (WRITE_BYTES + 1))).code == "arguments"
    put(run.workspace, "c.txt", "a\r\n")
    await run.call("file/read_text", path="c.txt")
    assert (await run.call("file/write", path="c.txt", content="\n" * WRITE_BYTES)).code == "too_large"


async def test_the_preview_is_bounded_and_the_whole_diff_is_kept(run: ToolRun) -> None:
    await run.call("file/write", path="a.txt", content="line of text\n" * 600)
    request = run.last(PermissionRequested)
    assert isinstance(request, PermissionRequested)
    assert request.truncated
    assert len(request.preview.encode()) <= PREVIEW_BYTES
    assert diff(run).count("+line of text\n") == 600
    assert len(diff(run).encode()) <= DIFF_BYTES


async def test_a_change_that_cannot_be_shown_whole_is_refused(run: ToolRun) -> None:
    line = "x" * 4000
    put(run.workspace, "a.txt", (line + "\n") * 17)
    for start in range(1, 18):
        await run.call("file/read_text", path="a.txt", start_line=start)
    assert (await run.call("file/write", path="a.txt", content="y\n")).code == "too_large"
    assert ASKED not in run.types()


async def test_a_file_whose_attributes_would_be_lost_is_refused_before_asking(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "one\n")
    give_access_list(target)
    assert (await read_and_edit(run, "n.md", "one", "two")).code == "attributes"
    assert ASKED not in run.types()


async def test_a_full_disk_is_a_failure_that_changed_nothing(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    target = put(run.workspace, "n.md", "one\n")

    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agent_builder.capsule.atomic_replace._fill", full)
    result = await read_and_edit(run, "n.md", "one", "two")
    assert (result.outcome, result.code) == ("failed", "io_error")
    assert target.read_text() == "one\n"
    assert run.left_over() == []


async def test_an_outcome_that_cannot_be_proven_is_said_and_never_repeated(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    put(run.workspace, "n.md", "one\n")

    def broken(directory: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("agent_builder.capsule.atomic_replace._sync", broken)
    assert (await read_and_edit(run, "n.md", "one", "two")).outcome == "outcome_unknown"
    again = await edit(run, "n.md", "one", "two")
    assert (again.outcome, again.code) == ("outcome_unknown", "repeated")
    assert run.types().count(ASKED) == 1


WIDE = "汉字文本内容测试样例" * 15


@pytest.mark.parametrize("path", ["c.txt", "/".join(["文" * 85] * 4)])
async def test_the_closest_lines_leave_room_for_the_text_which_counts_as_read(run: ToolRun, path: str) -> None:
    lines = [f"{WIDE}{number:03}\n" for number in range(9)]
    target = put(run.workspace, path, "".join(lines))
    result = await edit(run, path, f"{WIDE}xyz", "q")
    assert result.code == "old_not_found"
    assert len(result.text.encode()) <= READ_RESULT_BYTES
    assert "the closest lines are:\n1: 汉字" in result.text
    assert result.text.endswith("".join(lines))
    assert (await edit(run, path, lines[8][-10:], "Z\n")).outcome == "ok"
    assert target.read_text().endswith("Z\n")


@given(st.lists(st.sampled_from(["a", "中", "😀", "\n", "中" * 200, "x" * 300 + "\n"]), max_size=40).map("".join), st.sampled_from(["中" * 100, "a\nb", "😀"]))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_counts_as_read_was_shown(tmp_path: Path, text: str, old: str) -> None:
    put(tmp_path, "a.txt", text)
    reads = ReadRecord()
    result = plan_edit(tmp_path, {"path": "a.txt", "old": old, "new": "new"}, reads, never)
    if isinstance(result, CapabilityResult) and "content_digest" in result.receipt:
        assert len(result.text.encode()) <= READ_RESULT_BYTES
        digest = str(result.receipt["content_digest"])
        data = text.encode()
        seen = [place for place in range(len(data)) if reads.covers("a.txt", digest, (place, place + 1))]
        assert result.text.encode().endswith(data[seen[0] : seen[-1] + 1] if seen else b"")


async def test_a_text_with_more_bytes_in_the_file_than_one_answer_shows_can_be_read_as_told_and_edited(run: ToolRun) -> None:
    body = "ab\n" * 1300
    target = put(run.workspace, "c.txt", f"head\n{body}tail\n".replace("\n", "\r\n"))
    refused = await edit(run, "c.txt", body, "q\n")
    calls = 0
    while refused.code == "not_read":
        assert "one answer cannot show all of it" in refused.text or "Here it is." in refused.text
        told = re.search(r"start_line (\d+)", refused.text.partition("Your old text")[0])
        if told is not None:
            await run.call("file/read_text", path="c.txt", start_line=int(told[1]))
        refused = await edit(run, "c.txt", body, "q\n")
        calls += 1
        assert calls < 9
    assert refused.outcome == "ok"
    assert target.read_bytes() == b"head\r\nq\r\ntail\r\n"


async def test_a_whole_file_with_a_line_that_no_read_shows_is_never_asked_to_be_read(run: ToolRun) -> None:
    put(run.workspace, "a.txt", "short\n" + "x" * (READ_BYTES + 1) + "\n")
    await run.call("file/read_text", path="a.txt")
    await run.call("file/read_text", path="a.txt", start_line=2)
    result = await run.call("file/write", path="a.txt", content="y\n")
    assert result.code == "not_read"
    assert "Line 2 is longer than that and cannot be read whole: use file_edit for a part of it." in result.text
    assert "Not read yet" not in result.text
    assert (await edit(run, "a.txt", "short", "longer")).outcome == "ok"
