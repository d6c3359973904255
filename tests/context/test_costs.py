"""Costs cover every spelling of a message, and are counted once."""

from agent_builder.context import costs
from agent_builder.context.costs import priced, priced_schema, total
from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.protocol.request import TokenCounter


def a_counter() -> tuple[TokenCounter, list[str]]:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text.encode())

    return TokenCounter("test", count, per_message=16, reserve=256, exact=False), counted


def test_a_message_costs_its_text_its_role_and_seams():
    cost = priced({"role": "user", "content": "中文"}, BYTES_COUNTER).cost
    assert (cost.text, cost.spare, cost.units, cost.bytes) == (6 + 4, 2, 1, 6)
    assert cost.upper(BYTES_COUNTER) == 6 + 4 + 2 + 16


def test_arguments_cost_their_longest_spelling():
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"index": 0, "name": "n", "arguments": {"a": "<&>"}}}]}
    cost = priced(message, BYTES_COUNTER).cost
    compact = '{"name":"n","arguments":{"a":"<&>"}}'
    assert cost.text == len("assistant") + len(compact)
    assert cost.spare == 2 + 3 * 5 + 1 + len("c") + 1
    assert cost.units == 2


def test_a_request_costs_its_parts_and_the_reserve():
    parts = (priced_schema({"a": 1}, BYTES_COUNTER), priced({"role": "user", "content": "x"}, BYTES_COUNTER))
    sums = total(parts, BYTES_COUNTER)
    assert sums.text == len('{"a":1}') + len("user") + 1
    assert sums.upper == sums.text + 256 + 16 + 2 + 1 + 1
    assert sums.bytes == len('{"a":1}') + 1


def test_equal_messages_are_counted_once_per_tokenizer():
    counter, counted = a_counter()
    first = priced({"role": "user", "content": "once only"}, counter)
    before = len(counted)
    assert priced({"content": "once only", "role": "user"}, counter).cost == first.cost
    assert len(counted) == before
    other, again = a_counter()
    priced({"role": "user", "content": "once only"}, other)
    assert again


def test_more_tokenizers_than_are_loaded_do_not_pile_up():
    for _ in range(12):
        priced({"role": "user", "content": "x"}, a_counter()[0])
    assert len(costs._MEMORY) <= 3
