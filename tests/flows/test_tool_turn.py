"""A message whose answer needs the workspace: read, search, edit, ask, deny, answer; through a real Worker, with real files."""

import json
from typing import Any

import pytest
import pytest_asyncio

from agent_builder.context.instructions import FINALIZATION_MARKER
from tests.support.fake_ollama import FakeOllama, call, calls, text, thinking
from tests.support.gateway import Gateway, Json
from tests.support.tool_turns import Turns, entry, outcomes

pytestmark = pytest.mark.asyncio(loop_scope="module")
ENTRIES = (
    entry("in order", 'several_calls = "in_order"') + entry("marker", 'finalization = "marker_only"') + entry("plain", "tools = false")
    + entry("one", 'budgets = { model_calls = 2, tool_calls = 1 }') + entry("marker last", 'finalization = "marker_only"\nbudgets = { model_calls = 2, tool_calls = 1 }')
)
NOTES = "# Notes\n\nteh cat\nthe end\n"
READ = call("file_read_text", path="notes.md")
FIX = call("file_edit", path="notes.md", old="teh cat", new="the cat")


@pytest_asyncio.fixture(loop_scope="module")
async def turns(shared: Gateway, shared_fake: FakeOllama) -> Turns:
    made = await Turns.begin(shared, shared_fake)
    made.file("notes.md", NOTES)
    return made


# read, edit, approve -----------------------------------------------------------------------------------------------


async def test_a_typo_is_read_edited_approved_and_the_file_has_exactly_that_change(turns: Turns) -> None:
    run = await turns.run(READ, FIX, text("Fixed."), message="read notes.md and fix the typo in line 3", decide="approve")
    assert (run.text, outcomes(run)) == ("Fixed.", [("ok", None), ("ok", None)])
    assert (turns.gateway.workspace / "notes.md").read_text() == NOTES.replace("teh", "the")
    (asked,) = run.of("permission.requested")
    assert asked["preview"] == "--- notes.md\n+++ notes.md\n@@ -1,4 +1,4 @@\n # Notes\n \n-teh cat\n+the cat\n the end\n"
    assert not asked["truncated"]
    kinds = [kind for kind in run.types if kind.startswith(("tool.", "permission."))]
    assert kinds == [
        "tool.call.proposed", "tool.call.started", "tool.call.finished", "tool.call.proposed", "permission.requested",
        "permission.resolved", "tool.call.started", "tool.call.finished",
    ]
    assert [stage["stage"] for stage in run.of("run.stage") if stage["stage"] in ("tool", "approval")] == ["tool", "approval", "tool"]


async def test_the_model_sees_each_result_and_the_journal_only_its_receipt(turns: Turns) -> None:
    run = await turns.run(READ, FIX, text("Fixed."), decide="approve")
    read, edited = turns.results
    assert read == f"notes.md: 4 lines, {len(NOTES)} bytes\n{NOTES}"
    assert edited.startswith("done: notes.md was changed: 1 line removed, 1 added; it has 4 lines")
    receipts = [one["receipt"] for one in run.of("tool.call.finished")]
    assert (receipts[0]["lines"], receipts[0]["truncated"], receipts[0]["bytes"]) == (4, False, len(read))
    assert receipts[1]["content_digest"] != receipts[0]["content_digest"]
    assert "# Notes" not in str(receipts)


async def test_the_next_turn_begins_with_the_same_bytes(turns: Turns) -> None:
    await turns.run(READ, FIX, text("Fixed."), decide="approve")
    last = turns.chats[-1]
    await turns.run(text("Bye."), message="thanks")
    following = turns.chats[-1]["messages"]
    assert following[: len(last["messages"])] == last["messages"]
    assert following[len(last["messages"]) :] == [{"role": "assistant", "content": "Fixed."}, {"role": "user", "content": "thanks"}]
    assert turns.chats[-1]["tools"] == turns.chats[0]["tools"]


async def test_a_denial_with_the_operators_words_reaches_the_model_and_nothing_is_changed(turns: Turns) -> None:

    async def deny(event: Json) -> None:
        answer = await turns.gateway.decide(event, "deny", reason="that is how she is called")
        assert answer.json()["state"] == "denied"

    run = await turns.run(READ, FIX, text("Left alone."), message="fix it", at={"permission.requested": deny})
    assert run.terminal["type"] == "run.completed"
    assert turns.results[1] == (
        'The operator denied this call; nothing was changed. The operator says: "that is how she is called" '
        "Do not call it again. Answer in plain words."
    )
    assert [one["decision"] for one in run.of("permission.resolved")] == ["deny"]
    assert (turns.gateway.workspace / "notes.md").read_text() == NOTES


async def test_a_call_that_succeeded_is_not_done_again(turns: Turns) -> None:
    write = call("file_write", path="new.txt", content="once\n")
    run = await turns.run(write, write, text("Done."), decide="approve")
    assert outcomes(run) == [("ok", None), ("ok", "repeated")]
    assert len(run.of("permission.requested")) == 1
    assert turns.results[1].startswith("This call was already done; its result stands above.")
    assert run.text == "Done."


async def test_an_edit_of_an_unread_file_shows_its_text_and_a_following_edit_works(turns: Turns) -> None:
    run = await turns.run(FIX, FIX, text("Done."), decide="approve")
    assert outcomes(run) == [("refused", "not_read"), ("ok", None)]
    assert "call file_edit again with the same arguments" in turns.results[0]
    assert turns.results[0].endswith(NOTES)
    assert (turns.gateway.workspace / "notes.md").read_text() == NOTES.replace("teh", "the")


async def test_an_invented_path_is_answered_with_the_names_that_exist(turns: Turns) -> None:
    run = await turns.run(call("file_read_text", path="docs/notes.txt"), READ, text("The end."))
    assert outcomes(run) == [("refused", "missing"), ("ok", None)]
    assert turns.results[0] == "there is no file docs/notes.txt; files here are: notes.md, agent-builder.md"


async def test_a_large_file_is_read_on_and_edited_where_it_was_read(turns: Turns) -> None:
    """5000 bytes: a whole read is not possible in one call, an edit of a part that was read is."""
    turns.file("big.py", "".join(f"value_{number:03} = {number:011}\n" for number in range(200)))
    edit = call("file_edit", path="big.py", old="value_190 = 00000000190", new="value_190 = 7")
    run = await turns.run(call("file_read_text", path="big.py", start_line=171), edit, text("Set."), decide="approve")
    assert outcomes(run) == [("ok", None), ("ok", None)]
    assert "value_190 = 7\n" in (turns.gateway.workspace / "big.py").read_text()


async def test_a_whole_write_of_a_large_file_is_refused_with_the_true_reason(turns: Turns) -> None:
    turns.file("big.py", "x = 1\n" * 1000)
    run = await turns.run(call("file_read_text", path="big.py"), call("file_write", path="big.py", content="y"), text("I cannot."))
    assert (outcomes(run)[1], run.text) == (("refused", "not_read"), "I cannot.")
    assert "all its 6000 bytes must have been read in this Run, and one call reads 4096 bytes" in turns.results[1]
    assert "use file_edit" in turns.results[1]


# budgets and the end ------------------------------------------------------------------------------------------------


async def test_when_the_budget_is_spent_a_plain_answer_is_asked_for_without_tools(turns: Turns) -> None:
    await turns.run(READ, call("file_stat", path="notes.md"), text("Four lines."))
    first, second, third = turns.chats
    assert first["tools"] == second["tools"]
    assert "tools" not in third
    assert third["messages"][-1] == {"role": "user", "content": FINALIZATION_MARKER}
    assert third["messages"][-2]["role"] == "tool"
    await turns.run(text("Bye."), message="thanks")
    assert turns.chats[-1]["messages"][: len(third["messages"])] == third["messages"]


async def test_a_profile_may_keep_the_schemas_for_the_sake_of_the_evaluated_prefix(turns: Turns) -> None:
    await turns.run(READ, call("file_stat", path="notes.md"), text("Four lines."), model_id="marker")
    assert turns.chats[2]["tools"] == turns.chats[0]["tools"]
    assert turns.chats[2]["messages"][-1]["content"] == FINALIZATION_MARKER


@pytest.mark.parametrize("again", [READ, text('{"name": "file_read_text", "arguments": {"path": "notes.md"}}'), call("nonsense")], ids=["native", "written", "unknown"])
async def test_a_call_that_comes_all_the_same_is_not_done_and_asked_for_once_more_without_tools(turns: Turns, again: Any) -> None:
    run = await turns.run(READ, call("file_stat", path="notes.md"), again, text("Four lines."), model_id="marker")
    assert (run.text, len(run.of("tool.call.proposed"))) == ("Four lines.", 2)
    assert "tools" not in turns.chats[3]
    assert turns.chats[3]["messages"] == turns.chats[2]["messages"]


@pytest.mark.parametrize("model", ["test", "marker last"])
async def test_a_call_past_all_budgets_is_a_loop(turns: Turns, model: str) -> None:
    steps = [READ, call("file_stat", path="notes.md"), READ] if model == "test" else [READ, READ]
    run = await turns.run(*steps, model_id=model)
    assert run.terminal["payload"]["code"] == "model_tool_loop"
    assert (await turns.run(text("Here."), message="still there?")).text == "Here."
    assert FINALIZATION_MARKER not in str(turns.chats[-1]["messages"])


async def test_the_last_model_call_is_never_spent_on_a_tool(turns: Turns) -> None:
    run = await turns.run(READ, text("Four lines."), model_id="one")
    assert run.text == "Four lines."
    assert turns.chats[1]["messages"][-1]["content"] == FINALIZATION_MARKER


async def test_a_model_without_tools_is_offered_none_and_told_of_none(turns: Turns) -> None:
    run = await turns.run(text("Hello."), model_id="plain")
    assert run.text == "Hello."
    assert "tools" not in turns.chats[0]
    assert "file_read_text" not in turns.chats[0]["messages"][0]["content"]


async def test_what_a_provider_is_told_for_a_short_message_stays_small(turns: Turns) -> None:
    await turns.run(text("Hi."), message="say hi")
    body = json.dumps({key: turns.chats[0][key] for key in ("messages", "tools")}, ensure_ascii=False)
    assert len(body.encode()) <= 5000
    assert "builtin_echo" not in body


# several calls -------------------------------------------------------------------------------------------------------

BOTH = (("file_read_text", {"path": "notes.md"}), ("file_stat", {"path": "notes.md"}))


@pytest.mark.parametrize("step", [
    calls(*BOTH, together=True), calls(*BOTH), calls(*BOTH, ids=["x", "x"]), calls(*BOTH, ids=[None, None]), calls(*BOTH, ids=["", "y" * 300]),
    calls(*BOTH, in_done=True), calls(*BOTH, together=True, content="I look."),
], ids=["one frame", "two frames", "same id", "no id", "odd ids", "in the final frame", "beside words"])
async def test_several_calls_at_once_are_refused_whole(turns: Turns, step: Any) -> None:
    run = await turns.run(step)
    assert run.terminal["payload"]["code"] == "model_tool_loop"
    assert run.of("tool.call.proposed") == []
    assert (await turns.run(text("Here."), message="still there?")).text == "Here."


@pytest.mark.parametrize("ids", [["x", "x"], [None, None], ["", "y" * 300], ["a", "b"]])
async def test_several_calls_run_in_order_where_the_profile_says_so(turns: Turns, ids: list[str | None]) -> None:
    run = await turns.run(calls(*BOTH, ids=ids), text("Four lines."), model_id="in order")
    assert (run.text, [one["tool_id"] for one in run.of("tool.call.finished")]) == ("Four lines.", ["file/read_text", "file/stat"])
    (answer,) = [message for message in turns.chats[1]["messages"] if message.get("tool_calls")]
    assert [one["function"]["index"] for one in answer["tool_calls"]] == [0, 1]


async def test_each_of_several_effects_is_asked_for_by_itself(turns: Turns) -> None:
    both = calls(("file_write", {"path": "a.txt", "content": "a"}), ("file_write", {"path": "b.txt", "content": "b"}))
    run = await turns.run(both, text("Done."), decide="approve", model_id="in order")
    assert len(run.of("permission.requested")) == 2
    assert [one["type"] for one in run.events if one["type"] in ("permission.requested", "tool.call.finished")] == [
        "permission.requested", "tool.call.finished", "permission.requested", "tool.call.finished",
    ]


async def test_more_calls_than_the_budget_has_left_are_a_loop_and_none_runs(turns: Turns) -> None:
    run = await turns.run(calls(*BOTH, ("file_glob", {"pattern": "*"})), model_id="in order")
    assert (run.terminal["payload"]["code"], run.of("tool.call.proposed")) == ("model_tool_loop", [])


async def test_words_and_thinking_beside_a_call_are_kept_apart_from_the_answer(turns: Turns) -> None:
    run = await turns.run(calls(("file_read_text", {"path": "notes.md"}), content="Let me look. "), thinking("Four?", "Four lines."))
    assert run.text == "Four lines."
    assert "".join(one["text"] for one in run.of("assistant.block.delta")) == "Let me look. Four lines."
    assert turns.chats[1]["messages"][2]["content"] == "Let me look. "
