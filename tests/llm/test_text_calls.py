"""Calls written as text: what is one, what is not, and that no half call is ever shown."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.llm.json_prefix import JsonPrefix
from agent_builder.llm.text_calls import HeldText, WrittenCall, written_call
from agent_builder.protocol.limits import HELD_TEXT_BYTES

CALL = '{"name": "file_read_text", "arguments": {"path": "a.txt"}}'
READ = WrittenCall("file_read_text", {"path": "a.txt"}, CALL)


def held(text: str, size: int = 1) -> tuple[str, str, tuple[WrittenCall, ...]]:
    """What was shown before the end, what was still held, and the calls."""
    machine, shown = HeldText(), ""
    for at in range(0, len(text), size):
        shown += machine.feed(text[at : at + size])
    rest, calls = machine.finish()
    return shown, rest, calls


@pytest.mark.parametrize("source", [
    CALL,
    '{"function": "file_read_text", "arguments": {"path": "a.txt"}}',
    '{"tool":"file_read_text","parameters":{"path":"a.txt"}}',
    '{"arguments": {"path": "a.txt"}, "name": "file_read_text"}',
    '{"type": "function", "function": {"name": "file_read_text", "arguments": {"path": "a.txt"}}}',
    '{"type": "function", "function": {"name": "file_read_text", "parameters": {"path": "a.txt"}}}',
])
def test_the_closed_set_of_shapes(source: str) -> None:
    assert written_call(source) == WrittenCall("file_read_text", {"path": "a.txt"}, source)
    for whole in (source, f"```json\n{source}\n```", f"```\n{source}```", f"```JSON {source} ```\n", f"<tool_call>\n{source}\n</tool_call>"):
        for size in (1, 5, 1000):
            shown, rest, calls = held(whole, size)
            assert (shown, rest, [call.name for call in calls]) == ("", whole, ["file_read_text"])


@pytest.mark.parametrize("source", [
    '{"name": "x"}', '{"arguments": {}}', '{"name": "x", "arguments": []}', '{"name": "x", "arguments": "{}"}', '{"name": 5, "arguments": {}}',
    '{"name": "x", "arguments": {}, "id": 1}', '{"name": "x", "tool": "y"}', '{"name": "x", "function": "y", "arguments": {}}', "{}", "[]",
    '{"name": "x", "name": "y", "arguments": {}}', '{"name": "x", "arguments": {"a": 1, "a": 2}}', '{"name": "x", "arguments": {"a": NaN}}',
    '{"type": "tool", "function": {"name": "x", "arguments": {}}}', '{"function": {"name": "x", "arguments": {}}}', f"[{CALL}]", "null", "",
])
def test_nothing_else_is_a_call(source: str) -> None:
    assert written_call(source) is None
    shown, rest, calls = held(source)
    assert (shown + rest, calls) == (source, ())


@pytest.mark.parametrize("text", [
    "The call is: " + CALL, CALL + " as you asked", f"```json\n{CALL}\n```\nDone.", f"```python\n{CALL}\n```", f"```jsonc\n{CALL}\n```", f"`{CALL}`",
    f"<tool_call>{CALL}</tool_calls>", f"<TOOL_CALL>{CALL}</TOOL_CALL>", f"```json\n{CALL}", f"<tool_call>{CALL}", CALL[:-1], f"```json\n{CALL}\n``",
    f"```json\n{CALL}\n{CALL}\n```", f"```json\n```\n{CALL}", "``" + CALL, '{"city": "Paris"}', "{", "```", "<", " ", "<tool_call", f"{CALL}```",
])
def test_a_call_beside_anything_else_is_text(text: str) -> None:
    for size in (1, 3, 1000):
        shown, rest, calls = held(text, size)
        assert (shown + rest, calls) == (text, ())


def test_several_calls_with_blanks_between() -> None:
    other = CALL.replace("a.txt", "b.txt")
    text = f"{CALL}\n\n```json\n{other}\n```\n<tool_call>{CALL}</tool_call>\n"
    assert held(text) == ("", text, (READ, WrittenCall("file_read_text", {"path": "b.txt"}, other), READ))


@pytest.mark.parametrize("between", ["", "\n", "\n" + CALL.replace("a.txt", "b.txt") + "\n"])
def test_a_call_written_a_third_time_is_text_at_once(between: str) -> None:
    text = between.join([CALL, CALL, CALL])
    machine = HeldText()
    assert machine.feed(text[:-1]) == ""
    assert machine.feed(text[-1]) == text
    assert machine.finish() == ("", ())


@pytest.mark.parametrize(("text", "free_at"), [
    ("Hello", 1), ("{ hello", 3), ('{"nam":', 6), ('{"city"', 3), ("```python", 4), ("```jsx", 6), ("<b>", 2), ("[1]", 1), ('{"name": 5', 10),
    ('{"arguments": [', 15), ('{"name": "x", "arguments": {"a": tru3', 37), ('{"name": "x", "arguments": {"a": 1.}', 36), (f"{CALL} x", len(CALL) + 2),
    ('{"name": "a\nb"', 12), ('{"name": "\\x"', 12), ('{"name": "x", "name": "y", "arguments": {}} ', 43), ('{"name": "x",}', 14), ("\t \n{[", 5),
])
def test_text_is_free_at_the_first_character_that_rules_a_call_out(text: str, free_at: int) -> None:
    machine = HeldText()
    assert machine.feed(text[: free_at - 1]) == ""
    assert machine.feed(text[free_at - 1 : free_at]) == text[:free_at]
    assert machine.feed(text[free_at:]) == text[free_at:]


@pytest.mark.parametrize(("more", "shown"), [(0, False), (1, True)])
def test_no_more_than_the_bound_is_held(more: int, shown: bool) -> None:
    head = '{"name": "x", "arguments": {"path": "'
    machine = HeldText()
    text = head + "中" * ((HELD_TEXT_BYTES - len(head)) // 3)
    text += "x" * (HELD_TEXT_BYTES - len(text.encode()) + more)
    assert bool(machine.feed(text)) == shown


answers = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([CALL, "```json\n", "```", "\n", " ", "<tool_call>", "</tool_call>", "{", "}", '"name"', '"', ":", "word", "```py\n", ","]), max_size=12).map("".join),
)


@given(answers, st.integers(1, 9))
def test_what_comes_out_is_what_went_in_and_calls_are_never_shown(text: str, size: int) -> None:
    shown, rest, calls = held(text, size)
    assert shown + rest == text
    assert not (shown and calls)
    for call in calls:
        assert call.source in text


@given(st.dictionaries(st.sampled_from(["name", "function", "tool", "arguments", "parameters", "x"]), st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8), max_size=3), st.booleans())
def test_every_call_that_json_can_spell_is_recognised(value: dict[str, Any], spaced: bool) -> None:
    source = json.dumps(value, ensure_ascii=spaced, separators=(", ", ": ") if spaced else (",", ":"))
    _, _, calls = held(source)
    expected = written_call(source)
    assert calls == ((expected,) if expected else ())


@given(st.recursive(st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=12), st.integers(0, 2000), st.characters(exclude_categories=["Cs"]))
def test_the_prefix_machine_agrees_with_json(value: Any, place: int, noise: str) -> None:
    arguments = {"a": value}
    source = json.dumps({"name": "x", "arguments": arguments}, ensure_ascii=False)
    machine = JsonPrefix()
    assert all(machine.feed(char) for char in source)
    assert machine.closed
    at = place % len(source)
    broken = source[:at] + noise + source[at + 1 :]
    machine = JsonPrefix()
    taken = 0
    for char in broken:
        if machine.closed or not machine.feed(char):
            break
        taken += 1
    if machine.closed and taken == len(broken):
        json.loads(broken)
