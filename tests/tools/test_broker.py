import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent_builder.capsule import atomic_replace, safe_open
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.errors import PermissionExpired, PermissionStale
from agent_builder.protocol.events import Payload, PermissionRequested, ToolCallFinished, ToolCallProposed
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import CALL_PREVIEW_BYTES, READ_RESULT_BYTES
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.runs.race import guarded
from agent_builder.tools import broker
from agent_builder.tools.broker import CapabilityCall, CapabilityResult
from agent_builder.tools.file_read import read_text
from tests.support.capability import ToolRun, put

PROPOSED, STARTED, FINISHED = "tool.call.proposed", "tool.call.started", "tool.call.finished"
ASKED, RESOLVED = "permission.requested", "permission.resolved"


async def test_a_look_is_proposed_started_and_finished(run: ToolRun) -> None:
    put(run.workspace, "a.md", "x\n")
    await run.call("file/read_text", path="a.md")
    assert run.types() == [PROPOSED, STARTED, FINISHED]
    assert run.types(durable=False) == [PROPOSED, "run.stage", STARTED, FINISHED]


async def test_an_effect_is_asked_for_in_between_while_the_runs_clock_stands_still(run: ToolRun) -> None:
    await run.call("file/write", path="a.md", content="x\n")
    assert run.types() == [PROPOSED, ASKED, RESOLVED, STARTED, FINISHED]
    assert run.approvals.waited == 1


async def test_a_denied_effect_is_never_started(run: ToolRun) -> None:
    run.decision = "deny"
    await run.call("file/write", path="a.md", content="x\n")
    assert run.types() == [PROPOSED, ASKED, RESOLVED, FINISHED]
    assert not (run.workspace / "a.md").exists()


async def test_without_a_decision_the_run_ends_and_nothing_is_changed(run: ToolRun) -> None:
    run.decision = ""
    task = asyncio.create_task(run.call("file/write", path="a.md", content="x\n"))
    while ASKED not in run.types():
        await asyncio.sleep(0)
    while not task.done():
        run.clock.advance(600)
        await asyncio.sleep(0)
    with pytest.raises(PermissionExpired):
        await task
    finished = run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert (finished.outcome, finished.code) == ("refused", "permission_expired")
    assert not (run.workspace / "a.md").exists()


@pytest.mark.parametrize("tool_id", ["file/delete", "File/Read_Text", "file\u2215read_text", "", "__proto__", "builtin/echo", "agent/ask"])
async def test_a_tool_that_is_not_brokered_is_refused(run: ToolRun, tool_id: str) -> None:
    result = await run.call(tool_id, path="a.md")
    assert (result.outcome, result.code) == ("refused", "denied_by_policy")
    assert run.types() == [PROPOSED, FINISHED]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"path": 5}, {"path": None}, {"path": "a", "extra": 1}, {"path": "x" * 1025}, {"path": "a", "start_line": "1"}, {"path": "a", "start_line": 0},
     {"path": "a", "max_lines": 257}, {"path": "a", "start_line": True}, {"path": "\ud800"}, {"path": float("nan")}, {"path": ["a"]}],
)
async def test_wrong_arguments_are_refused_with_what_the_tool_takes(run: ToolRun, arguments: dict[str, object]) -> None:
    result = await run.call("file/read_text", **arguments)
    assert (result.outcome, result.code) == ("refused", "arguments")
    assert "file_read_text takes path, start_line (optional), max_lines (optional)" in result.text
    for event in run.events:
        event.model_dump_json()


async def test_a_call_that_succeeded_is_not_done_twice(run: ToolRun) -> None:
    put(run.workspace, "a.md", "x\n")
    await run.call("file/read_text", path="a.md")
    await run.call("file/write", path="b.md", content="x\n")
    (run.workspace / "b.md").unlink()
    again = await run.call("file/write", path="b.md", content="x\n")
    assert (again.outcome, again.code) == ("ok", "repeated")
    assert "already done" in again.text
    assert not (run.workspace / "b.md").exists()
    assert run.types().count(ASKED) == 1


async def test_a_denied_call_is_not_asked_for_twice(run: ToolRun) -> None:
    run.decision = "deny"
    await run.call("file/write", path="b.md", content="x\n")
    again = await run.call("file/write", path="b.md", content="x\n")
    assert (again.outcome, again.code) == ("denied", "repeated")
    assert run.types().count(ASKED) == 1


async def test_a_refused_call_may_be_tried_again(run: ToolRun) -> None:
    assert (await run.call("file/read_text", path="a.md")).outcome == "refused"
    put(run.workspace, "a.md", "x\n")
    assert (await run.call("file/read_text", path="a.md")).outcome == "ok"


async def test_after_a_change_a_look_is_worth_repeating(run: ToolRun) -> None:
    put(run.workspace, "a.md", "one\n")
    await run.call("file/read_text", path="a.md")
    assert (await run.call("file/read_text", path="a.md")).code == "repeated"
    await run.call("file/edit", path="a.md", old="one", new="two")
    assert (await run.call("file/read_text", path="a.md")).text.endswith("two\n")


async def test_two_runs_do_not_share_what_they_have_done(tmp_path: Path) -> None:
    from tests.support.capability import make_run

    first, second = make_run(tmp_path), make_run(tmp_path)
    put(first.workspace, "a.md", "one\n")
    await first.call("file/read_text", path="a.md")
    assert (await second.call("file/read_text", path="a.md")).code is None
    assert (await second.call("file/edit", path="a.md", old="one", new="1")).outcome == "ok"


async def test_the_events_preview_is_bounded_and_shows_hidden_characters(run: ToolRun) -> None:
    await run.call("file/glob", pattern="\u202e" + "x" * 500)
    proposed = run.last(ToolCallProposed)
    assert isinstance(proposed, ToolCallProposed)
    assert "⟦U+202E⟧" in proposed.preview
    assert len(proposed.preview.encode()) <= CALL_PREVIEW_BYTES


async def test_every_result_is_within_its_tools_bound(run: ToolRun) -> None:
    for number in range(200):
        put(run.workspace, f"{number}-" + "n" * 200, "y\n")
    arguments: dict[str, dict[str, object]] = {
        "file/read_text": {"path": "n" * 1024}, "file/stat": {"path": "n/" * 500 + "n"}, "file/glob": {"pattern": "**"},
        "file/grep": {"pattern": "y"}, "file/edit": {"path": "n", "old": "a", "new": "b"}, "file/write": {"path": "n/n", "content": "x"},
        "exec/run": {"command": "x" * 1024}, "agent/delegate": {"agent_id": "x", "message": "y"}, "skill/run": {"skill": "x" * 64},
        "document/extract_text": {"path": "n" * 1024},
    }
    for spec in CATALOG.specs:
        if not spec.local:
            result = await run.call(spec.id, **arguments[spec.id])
            assert 0 < len(result.text.encode()) <= spec.result_bytes


async def test_a_cancelled_run_during_a_write_finishes_it_and_records_what_became_of_it(
    run: ToolRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, real = asyncio.get_running_loop(), atomic_replace._fill
    calling = asyncio.create_task(run.call("file/write", path="a.md", content="x\n"))

    def fill(descriptor: int, data: bytes) -> None:
        loop.call_soon_threadsafe(calling.cancel)
        while not calling.cancelling():
            pass
        real(descriptor, data)

    monkeypatch.setattr(atomic_replace, "_fill", fill)
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert (run.workspace / "a.md").read_text() == "x\n"
    finished = run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert finished.outcome == "ok"


async def test_a_cancelled_run_that_waits_for_an_approval_changes_nothing(run: ToolRun) -> None:
    run.decision = ""
    calling = asyncio.create_task(run.call("file/write", path="a.md", content="x\n"))
    while ASKED not in run.types():
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert run.types() == [PROPOSED, ASKED, RESOLVED]
    assert not (run.workspace / "a.md").exists()


async def test_a_call_takes_only_what_was_emitted_before_it_acts(run: ToolRun) -> None:
    """A journal that cannot be written stops the effect: nothing happens without its record."""
    real = run.emit

    async def failing(*payloads: Payload) -> None:
        await real(*payloads)
        if any(payload.type == STARTED for payload in payloads):
            raise OSError("journal")

    scope = type(run.scope)(run.identity, run.workspace, run.run_root, failing, run.reads, run.approvals)
    with pytest.raises(OSError, match="journal"):
        await run.broker.execute(CapabilityCall(new_id(), "file/write", {"path": "a.md", "content": "x"}, False), scope)
    assert not (run.workspace / "a.md").exists()


async def test_the_question_shows_what_would_be_done(run: ToolRun) -> None:
    await run.call("file/write", path="a.md", content="hello\n")
    request = run.last(PermissionRequested)
    assert isinstance(request, PermissionRequested)
    assert request.preview == "--- (no file)\n+++ a.md\n@@ -0,0 +1 @@\n+hello\n"
    assert not request.truncated


async def test_however_often_a_run_is_cancelled_a_write_is_done_and_recorded_first(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, real = asyncio.get_running_loop(), atomic_replace._fill
    writing, may_write = asyncio.Event(), threading.Event()

    def fill(descriptor: int, data: bytes) -> None:
        loop.call_soon_threadsafe(writing.set)
        may_write.wait()
        real(descriptor, data)

    monkeypatch.setattr(atomic_replace, "_fill", fill)
    calling = asyncio.create_task(guarded(run.call("file/write", path="a.md", content="x\n")))
    await writing.wait()
    for _ in range(3):
        calling.cancel()
        for _ in range(9):
            await asyncio.sleep(0)
    over = calling.done()
    may_write.set()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not over
    assert (run.workspace / "a.md").read_text() == "x\n"
    finished = run.last(ToolCallFinished)
    assert isinstance(finished, ToolCallFinished)
    assert finished.outcome == "ok"


async def test_after_a_stale_approval_the_file_can_be_read_again(run: ToolRun) -> None:
    put(run.workspace, "n.md", "one\n")
    await run.call("file/read_text", path="n.md")
    run.operator = lambda _: put(run.workspace, "n.md", "mine one\n")
    assert "Read the file again" in (await run.call("file/edit", path="n.md", old="one", new="two")).text
    assert (await run.call("file/read_text", path="n.md")).text.endswith("mine one\n")


async def test_after_an_outcome_that_is_not_known_the_file_can_be_read_again(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    put(run.workspace, "n.md", "one\n")
    await run.call("file/read_text", path="n.md")

    def broken(directory: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(atomic_replace, "_sync", broken)
    assert (await run.call("file/edit", path="n.md", old="one", new="two")).outcome == "outcome_unknown"
    assert (await run.call("file/read_text", path="n.md")).text.endswith("two\n")


async def test_a_reading_that_a_refusal_asks_for_is_done_although_it_was_done_before(run: ToolRun) -> None:
    """The file has changed since, and only the first reading would say so."""
    put(run.workspace, "n.md", "line\n" * 300)
    for first in (1, 257):
        await run.call("file/read_text", path="n.md", start_line=first)
    put(run.workspace, "n.md", "Line\n" * 300)
    assert (await run.call("file/write", path="n.md", content="x")).code == "not_read"
    for first in (1, 257):
        assert "Line" in (await run.call("file/read_text", path="n.md", start_line=first)).text
    assert (await run.call("file/write", path="n.md", content="x")).outcome == "ok"


async def test_after_shown_text_was_cut_away_a_look_is_worth_repeating_and_an_effect_is_not(run: ToolRun) -> None:
    put(run.workspace, "n.md", "one\n")
    await run.call("file/write", path="new.md", content="x")
    await run.call("file/read_text", path="n.md")
    run.scope.forget_shown()
    assert (await run.call("file/edit", path="n.md", old="one", new="two")).code == "not_read"
    assert (await run.call("file/read_text", path="n.md")).code is None
    assert (await run.call("file/write", path="new.md", content="x")).code == "repeated"


async def test_a_change_that_another_one_took_back_is_done_again(run: ToolRun) -> None:
    target = put(run.workspace, "n.md", "A\n")
    await run.call("file/read_text", path="n.md")
    for path, old, new in (("n.md", "A", "B"), ("./n.md", "B", "A"), ("n.md", "A", "B")):
        result = await run.call("file/edit", path=path, old=old, new=new)
        assert (result.outcome, result.code, target.read_text()) == ("ok", None, f"{new}\n")
    assert (await run.call("file/edit", path="n.md", old="A", new="B")).code == "repeated"


async def test_a_change_of_another_file_takes_nothing_back(run: ToolRun) -> None:
    await run.call("file/write", path="a.md", content="x")
    await run.call("file/write", path="b.md", content="x")
    assert (await run.call("file/write", path="a.md", content="x")).code == "repeated"


def gone(workspace: Path) -> None:
    workspace.rmdir()


def open_to_others(workspace: Path) -> None:
    workspace.chmod(0o777)


@pytest.mark.parametrize("change", [gone, open_to_others])
@pytest.mark.parametrize(("tool_id", "arguments"), [
    ("file/read_text", {"path": "a"}), ("file/stat", {"path": "a"}), ("file/glob", {"pattern": "*"}), ("file/grep", {"pattern": "a"}),
    ("file/edit", {"path": "a", "old": "a", "new": "b"}), ("file/write", {"path": "a", "content": "b"}), ("exec/run", {"command": "runtime-compile"}),
])
async def test_a_workspace_that_cannot_be_used_is_an_answer(
    run: ToolRun, change: Callable[[Path], None], tool_id: str, arguments: dict[str, object]
) -> None:
    change(run.workspace)
    result = await run.call(tool_id, **arguments)
    assert (result.outcome, result.code) == ("refused", "workspace" if change is gone else "mode")
    assert "the workspace" in result.text
    assert run.types() == [PROPOSED, *([STARTED] if tool_id in LOOKS else []), FINISHED]


LOOKS = ("file/read_text", "file/stat", "file/glob", "file/grep")


@pytest.mark.parametrize(("tool_id", "arguments"), [("file/read_text", {"path": "a"}), ("file/edit", {"path": "a", "old": "a", "new": "b"})])
async def test_a_disk_that_fails_is_an_answer(
    run: ToolRun, monkeypatch: pytest.MonkeyPatch, tool_id: str, arguments: dict[str, object]
) -> None:
    def broken(*arguments: object) -> bytes:
        raise OSError(5, "Input/output error")

    put(run.workspace, "a", "a")
    monkeypatch.setattr(safe_open, "_read_all", broken)
    result = await run.call(tool_id, **arguments)
    assert (result.outcome, result.code, result.text) == ("failed", "io_error", "the operating system refused: Input/output error")


async def test_a_target_that_cannot_be_looked_at_when_the_operator_approves_makes_it_stale(
    run: ToolRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    put(run.workspace, "a", "a")
    await run.call("file/read_text", path="a")
    run.operator = lambda _: monkeypatch.setattr(safe_open, "_read_all", broken)
    result = await run.call("file/edit", path="a", old="a", new="b")
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert isinstance(run.faults[0], PermissionStale)


async def test_a_result_that_had_to_be_cut_does_not_count_as_read(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    put(run.workspace, "a.md", "one\n")

    def too_long(*arguments: object) -> CapabilityResult:
        result = read_text(*arguments)  # type: ignore[arg-type]
        return replace(result, text="x" * READ_RESULT_BYTES + result.text)

    monkeypatch.setattr(broker, "read_text", too_long)
    assert (await run.call("file/read_text", path="a.md")).text.endswith("…")
    assert (await run.call("file/edit", path="a.md", old="one", new="two")).code == "not_read"


async def test_a_call_whose_arguments_are_not_those_that_were_asked_about_is_not_done(run: ToolRun) -> None:
    arguments: dict[str, object] = {"path": "a.md", "content": "x"}
    run.operator = lambda _: arguments.update(content="y")
    result = await run.broker.execute(CapabilityCall(new_id(), "file/write", arguments, False), run.scope)
    assert (result.outcome, result.code) == ("refused", "permission_stale")
    assert not (run.workspace / "a.md").exists()


async def test_the_question_names_the_call_by_its_arguments(run: ToolRun) -> None:
    await run.call("file/write", path="a.md", content="x\n")
    proposed, request = run.last(ToolCallProposed), run.last(PermissionRequested)
    assert isinstance(proposed, ToolCallProposed) and isinstance(request, PermissionRequested)
    assert request.arguments_digest == proposed.arguments_digest == digest_of({"path": "a.md", "content": "x\n"})
    assert run.permissions.get(request.permission_id).arguments_digest == request.arguments_digest
