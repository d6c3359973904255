"""What comes back from a model call, and in which pieces."""

import json
from typing import Any

import pytest

from agent_builder.llm.assembly import MAX_OUTPUT_MARKER
from agent_builder.llm.broker import ProposedCall
from agent_builder.llm.repetition import REPETITION_MARKER
from agent_builder.llm.usage import CheckedUsage
from agent_builder.protocol.errors import ModelEmptyAnswer, ModelProtocol, ModelThinkingExhausted
from agent_builder.protocol.limits import HELD_TEXT_BYTES, THINKING_BYTES, VISIBLE_TEXT_BYTES
from tests.llm.bench import READ, STAT, bench, rendered
from tests.support.fake_ollama import (
    FakeOllama,
    begun,
    call,
    calls,
    frame,
    frames,
    hang,
    last,
    line,
    raw,
    text,
    thinking,
)

A_TXT: dict[str, object] = {"path": "a.txt"}
FENCED = '```json\n{"name": "file_read_text", "arguments": {"path": "a.txt"}}\n```'


def a_call(name: str = "file_read_text", *, as_text: bool = False, **arguments: Any) -> ProposedCall:
    return ProposedCall("file/read_text", name, arguments or A_TXT, None, as_text)


async def test_text_comes_piece_by_piece_and_whole() -> None:
    with FakeOllama() as fake:
        fake.script(text("Hello, world!", end=last(prompt=40, output=7)))
        async with bench(fake) as asking:
            answer = await asking.ask()
            assert (answer.text, asking.text, answer.calls, answer.reason) == ("Hello, world!", "Hello, world!", (), "stop")
            assert (answer.usage.input, answer.usage.output, answer.usage.complete) == (40, 7, True)


async def test_the_request_holds_everything_that_keeps_a_window_honest() -> None:
    with FakeOllama() as fake:
        async with bench(fake) as asking:
            await asking.ask("one")
            await asking.ask("one", tools=[READ])
        plain, with_tools = fake.chats
        for body in (plain, with_tools):
            assert (body["truncate"], body["shift"], body["stream"], body["think"], body["keep_alive"]) == (False, False, True, False, "30m")
            assert (body["options"]["num_ctx"], body["options"]["num_predict"], body["options"]["seed"]) == (32768, 4096, 0)
        assert {key: plain["options"].get(key) for key in ("temperature", "top_p", "top_k", "presence_penalty")} == {
            "temperature": 1.0, "top_p": 0.95, "top_k": 20, "presence_penalty": 1.5
        }
        assert with_tools["options"]["temperature"] == 0.0
        assert "tools" not in plain
        assert with_tools["tools"] == [READ.provider_schema()]
        assert "top_p" not in with_tools["options"]


async def test_a_short_prompt_may_use_more_than_the_reserve() -> None:
    with FakeOllama() as fake:
        async with bench(fake, window_cap=8192, output_cap=2048) as asking:
            await asking.ask("one")
            long = rendered("x" * 4 * 6900)
            await asking.ask(request=long)
        assert [body["options"]["num_predict"] for body in fake.chats] == [2048, 1024]


async def test_think_is_left_out_when_the_catalog_leaves_it_out() -> None:
    with FakeOllama() as fake:
        async with bench(fake, think=None) as asking:
            await asking.ask()
        assert "think" not in fake.chats[0]


async def test_the_key_is_sent_as_a_bearer_token(tmp_path: Any) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    with FakeOllama(key="secret") as fake:
        async with bench(fake, api_key_file=key) as asking:
            assert (await asking.ask()).text == "ok"


async def test_thinking_is_passed_on_by_itself_and_is_no_answer() -> None:
    with FakeOllama() as fake:
        fake.script(thinking("hm, ", "yes"))
        async with bench(fake) as asking:
            answer = await asking.ask()
            assert (asking.thoughts, answer.text) == (["hm, "], "yes")
            assert asking.stages[-2:] == ["thinking", "answering"]


@pytest.mark.parametrize("more", [0, 1])
async def test_thinking_is_shown_up_to_its_bound(more: int) -> None:
    with FakeOllama() as fake:
        fake.script(thinking("t" * (THINKING_BYTES + more), "yes"))
        async with bench(fake) as asking:
            await asking.ask()
            assert len("".join(asking.thoughts)) == THINKING_BYTES


async def test_only_thinking_is_told_as_such_with_its_usage() -> None:
    with FakeOllama() as fake:
        fake.script(thinking("hm " * 30, end=last("length", prompt=50, output=4096)))
        async with bench(fake) as asking:
            with pytest.raises(ModelThinkingExhausted) as caught:
                await asking.ask()
            usage = caught.value.details["usage"]
            assert isinstance(usage, CheckedUsage)
            assert (usage.input, usage.output) == (50, 4096)
        assert len(fake.chats) == 1


@pytest.mark.parametrize("step", [
    frames(), text(" \n "), frames(end=last("length")), text(" \n " * 3000, size=500), frames(frame(content=" " * (VISIBLE_TEXT_BYTES + 1) + "late")),
    text(" \n ", end=last("length")),
])
async def test_nothing_visible_is_no_answer(step: Any) -> None:
    with FakeOllama() as fake:
        fake.script(step)
        async with bench(fake) as asking:
            with pytest.raises(ModelEmptyAnswer):
                await asking.ask()


async def test_an_answer_that_reached_its_output_limit_says_so() -> None:
    with FakeOllama() as fake:
        fake.script(text("half a sen", end=last("length")))
        async with bench(fake) as asking:
            answer = await asking.ask()
            assert (answer.text, answer.reason) == ("half a sen" + MAX_OUTPUT_MARKER, "max_output")
            assert asking.text == answer.text


@pytest.mark.parametrize("reason", [None, "", "unheard-of", "stop"])
async def test_an_unknown_done_reason_is_a_stop(reason: str | None) -> None:
    with FakeOllama() as fake:
        fake.script(text("yes", end=last(reason)))
        async with bench(fake) as asking:
            assert (await asking.ask()).reason == "stop"


def unlike(size: int) -> str:
    """Text without any cycle."""
    numbers = "".join(f"{number} " for number in range(size))
    return numbers[:size]


async def test_visible_text_of_exactly_the_bound_is_whole() -> None:
    with FakeOllama() as fake:
        fake.script(text(unlike(VISIBLE_TEXT_BYTES), size=100))
        async with bench(fake) as asking:
            answer = await asking.ask()
            assert (answer.text, answer.reason) == (unlike(VISIBLE_TEXT_BYTES), "stop")


async def test_longer_text_is_cut_at_a_character_and_the_rest_is_drained_for_its_usage() -> None:
    with FakeOllama() as fake:
        content = unlike(VISIBLE_TEXT_BYTES - 1) + "中" + unlike(5000)
        fake.script(text(content, size=100, end=last(prompt=9, output=8)))
        async with bench(fake) as asking:
            answer = await asking.ask()
            assert answer.text == unlike(VISIBLE_TEXT_BYTES - 1) + MAX_OUTPUT_MARKER
            assert (answer.reason, answer.usage.output, asking.text) == ("max_output", 8, answer.text)


async def test_a_call_behind_cut_text_fails_the_answer() -> None:
    with FakeOllama() as fake:
        one = {"function": {"name": "file_read_text", "arguments": A_TXT}}
        fake.script(frames(frame(content=unlike(VISIBLE_TEXT_BYTES + 1)), frame(tool_calls=[one])))
        async with bench(fake) as asking:
            with pytest.raises(ModelProtocol):
                await asking.ask(tools=[READ])


async def test_endless_repetition_is_ended_with_a_marker() -> None:
    passage = "大连是一座滨海城市，经济与文化交流频繁，是重要的工业和旅游基地。"
    with FakeOllama() as fake:
        fake.script(text("开头。" + passage * 500, size=5))
        async with bench(fake) as asking:
            answer = await asking.ask()
            assert (answer.reason, answer.usage) == ("repetition_truncated", CheckedUsage())
            assert answer.text.endswith(REPETITION_MARKER)
            assert answer.text.count(REPETITION_MARKER) == 1
            assert answer.text.startswith("开头。" + passage)
            assert asking.text == answer.text


def endless(content: str) -> Any:
    """A step that goes on after `content` until the client leaves."""

    async def play(answer: Any, body: Any) -> None:
        await begun(content)(answer, body)
        await hang()(answer, body)

    return play


async def test_the_guard_closes_the_connection() -> None:
    with FakeOllama() as fake:
        fake.script(endless("S" * 4000))
        async with bench(fake) as asking:
            assert (await asking.ask()).reason == "repetition_truncated"
            await fake.closed()


async def test_the_guard_ends_a_model_that_writes_one_call_for_ever() -> None:
    with FakeOllama() as fake:
        fake.script(endless('{"name": "file_read_text", "arguments": {"path": "a.txt"}}\n' * 100))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert (answer.calls, answer.reason) == ((), "repetition_truncated")
            await fake.closed()


async def test_a_repetition_beside_a_tool_call_is_not_guarded() -> None:
    with FakeOllama() as fake:
        one = {"function": {"name": "file_read_text", "arguments": A_TXT}}
        fake.script(frames(frame(tool_calls=[one]), frame(content="ab" * 2000)))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert (answer.calls, answer.text) == ((a_call(),), "ab" * 2000)


async def test_a_call_in_the_same_frame_as_a_repetition_is_not_lost() -> None:
    with FakeOllama() as fake:
        one = {"function": {"name": "file_read_text", "arguments": A_TXT}}
        fake.script(frames(frame(content="ab" * 2000, tool_calls=[one])))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert (answer.calls, answer.text, answer.reason) == ((a_call(),), "ab" * 2000, "stop")


# calls in their own field ------------------------------------------------------------------------------------------


async def test_a_call_carries_checked_arguments() -> None:
    with FakeOllama() as fake:
        fake.script(call("file_read_text", path="a.txt"))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ, STAT])
            assert (answer.calls, answer.text, answer.reason) == ((a_call(),), "", "stop")
            assert "answering" not in asking.stages


@pytest.mark.parametrize("shape", [
    calls(("file_read_text", A_TXT), ("file_stat", A_TXT)),
    calls(("file_read_text", A_TXT), ("file_stat", A_TXT), together=True),
    calls(("file_read_text", A_TXT), ("file_stat", A_TXT), in_done=True),
    calls(("file_read_text", A_TXT), ("file_stat", A_TXT), ids=["x", "x"]),
    calls(("file_read_text", A_TXT), ("file_stat", A_TXT), ids=[None, ""]),
])
async def test_two_calls_stay_two_however_they_arrive(shape: Any) -> None:
    with FakeOllama() as fake:
        fake.script(shape)
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ, STAT])
            assert [one.tool_id for one in answer.calls] == ["file/read_text", "file/stat"]


async def test_text_beside_a_call_is_kept() -> None:
    with FakeOllama() as fake:
        fake.script(calls(("file_read_text", A_TXT), content="I will look.", together=True))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert (answer.text, answer.calls) == ("I will look.", (a_call(),))


async def test_arguments_may_be_the_json_text_of_an_object() -> None:
    with FakeOllama() as fake:
        fake.script(call("file/read_text", _raw='{"path": "a.txt"}'))
        async with bench(fake) as asking:
            assert (await asking.ask(tools=[READ])).calls == (a_call("file/read_text"),)


@pytest.mark.parametrize("arguments", [
    '{"path": "a', None, [], 5, {}, {"path": 5}, {"path": "a.txt", "extra": 1}, {"path": "a" * 200_000}, '{"path":"a","path":"b"}', "[" * 100_000,
])
async def test_faulty_arguments_are_told_and_never_guessed(arguments: Any) -> None:
    with FakeOllama() as fake:
        one = {"function": {"name": "file_read_text", "arguments": arguments}}
        fake.script(frames(frame(tool_calls=[one])))
        async with bench(fake) as asking:
            (proposed,) = (await asking.ask(tools=[READ])).calls
            assert (proposed.tool_id, proposed.arguments) == ("file/read_text", None)
            assert proposed.fault is not None
            assert len(proposed.fault) < 200


async def test_a_key_twice_in_a_frame_with_calls_is_no_answer() -> None:
    content = b'{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"file_read_text","arguments":{"path":"a","path":"b"}}}]},"done":false}\n'
    with FakeOllama() as fake:
        fake.script(raw(content, line(last()({}))))
        async with bench(fake) as asking:
            with pytest.raises(ModelProtocol):
                await asking.ask(tools=[READ])


@pytest.mark.parametrize("name", ["file_delete", "File_Read_Text", "file\u2215read_text", "", "__proto__", None, "file_stat", "n\u0000" * 300])
async def test_a_tool_that_is_not_offered_is_a_fault(name: str | None) -> None:
    with FakeOllama() as fake:
        fake.script(frames(frame(tool_calls=[{"function": {"name": name, "arguments": A_TXT}}])))
        async with bench(fake) as asking:
            (proposed,) = (await asking.ask(tools=[READ])).calls
            assert (proposed.tool_id, proposed.arguments) == ("", None)
            assert proposed.fault is not None
            assert proposed.name.isprintable()
            assert len(proposed.name) <= 80


# calls written as text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 6, 1000])
@pytest.mark.parametrize("content", [FENCED, FENCED[8:-4], f"<tool_call>{FENCED[8:-4]}</tool_call>", f"\n{FENCED}\n\n"])
async def test_a_call_written_as_text_is_that_call_and_never_shown(content: str, size: int) -> None:
    with FakeOllama() as fake:
        fake.script(text(content, size=size))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert (answer.calls, asking.texts, answer.text) == ((a_call(as_text=True),), [], content)


async def test_two_written_calls_are_two_calls() -> None:
    with FakeOllama() as fake:
        fake.script(text(FENCED + "\n" + FENCED))
        async with bench(fake) as asking:
            assert (await asking.ask(tools=[READ])).calls == (a_call(as_text=True), a_call(as_text=True))


@pytest.mark.parametrize("content", [
    f"Here you are:\n{FENCED}", f"{FENCED}\nDone.", f"<b>{FENCED}</b>", "<function=file_read_text>\n<parameter=path>a.txt</parameter></function>",
    FENCED.replace("json", "python"), f"[{FENCED[8:-4]}]", '{"name": "file_read_text"}', FENCED[8:-4].replace("}}", '}, "id": 1}'),
    '{"name": "agent_delegate", "arguments": {"agent": "x", "message": "y"}}', '{"name": "agent/delegate", "arguments": {}}',
])
async def test_everything_else_is_text(content: str) -> None:
    with FakeOllama() as fake:
        fake.script(text(content))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert (answer.calls, answer.text, asking.text) == ((), content, content)


async def test_text_is_text_when_the_profile_says_so_and_when_no_tools_are_offered() -> None:
    with FakeOllama() as fake:
        fake.script(text(FENCED), text(FENCED))
        async with bench(fake, text_tool_calls="off") as asking:
            assert (await asking.ask(tools=[READ])).text == FENCED
        async with bench(fake) as asking:
            assert (await asking.ask()).text == FENCED


@pytest.mark.parametrize("content", [FENCED.replace("file_read_text", "read"), FENCED.replace('"a.txt"', "5")])
async def test_a_faulty_written_call_is_corrected_once_and_then_text(content: str) -> None:
    with FakeOllama() as fake:
        fake.script(text(content), text(content))
        async with bench(fake) as asking:
            (proposed,) = (await asking.ask(tools=[READ])).calls
            assert proposed.fault is not None
            assert proposed.written_as_text
            assert asking.texts == []
            answer = await asking.ask(tools=[READ], correction_available=False)
            assert (answer.calls, answer.text, asking.text) == ((), content, content)


async def test_a_quotation_of_this_run_stays_text() -> None:
    with FakeOllama() as fake:
        fake.script(text(FENCED))
        async with bench(fake) as asking:
            answer = await asking.ask("Repeat this: " + FENCED[8:-4], tools=[READ])
            assert (answer.calls, asking.text) == ((), FENCED)


async def test_held_text_is_shown_when_a_real_call_follows() -> None:
    with FakeOllama() as fake:
        fake.script(calls(("file_read_text", A_TXT), content=FENCED))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert (answer.calls, asking.text) == ((a_call(),), FENCED)


async def test_text_is_held_up_to_its_bound() -> None:
    head = '{"name": "file_read_text", "arguments": {"path": "'
    with FakeOllama() as fake:
        content = head + unlike(HELD_TEXT_BYTES)
        fake.script(text(content, size=1000))
        async with bench(fake) as asking:
            answer = await asking.ask(tools=[READ])
            assert answer.text == content[:VISIBLE_TEXT_BYTES] + MAX_OUTPUT_MARKER


# usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [
    last(prompt_eval_count=None), last(eval_count=None), last(prompt_eval_count=None, prompt_eval_duration=None, eval_count=None, eval_duration=None), last(prompt=0),
])
async def test_missing_metrics_make_the_usage_incomplete(end: Any) -> None:
    with FakeOllama() as fake:
        fake.script(text("yes", end=end))
        async with bench(fake) as asking:
            answer = await asking.ask()
            assert (answer.text, answer.usage.complete) == ("yes", False)


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, 1 << 40, [], {}])
async def test_impossible_metrics_fail_the_answer(bad: Any) -> None:
    with FakeOllama() as fake:
        fake.script(text("yes", end=last(prompt_eval_count=bad)))
        async with bench(fake) as asking:
            with pytest.raises(ModelProtocol):
                await asking.ask()


async def test_unknown_fields_and_frames_behind_the_final_one_are_ignored() -> None:
    end = json.dumps({**last()({}), "surprise": {"a": 1}}).encode() + b"\n"
    with FakeOllama() as fake:
        fake.script(raw(line({**frame(content="yes"), "logprobs": [1], "remote_host": ""}) + end + line(frame(content="no"))))
        async with bench(fake) as asking:
            assert (await asking.ask()).text == "yes"
