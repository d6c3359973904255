"""Costs cover every spelling of a message, and are counted once."""

import gc
import weakref
from dataclasses import replace

from agent_builder.context.costs import Cost, Rendered, priced, priced_schema, rendered_request, total
from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.request import TemplateOverhead, TokenCounter, Units


def a_counter() -> tuple[TokenCounter, list[str]]:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text.encode())

    return TokenCounter("test", count, exact=False), counted


def test_a_message_costs_its_text_its_role_and_seams():
    cost = priced({"role": "user", "content": "中文"}, BYTES_COUNTER).cost
    assert (cost.text, cost.spare, cost.units, cost.bytes) == (6 + 4, 2, Units(messages=1), 6)
    assert cost.upper(BYTES_COUNTER) == 6 + 4 + 2 + 16


def test_arguments_cost_their_longest_spelling():
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"index": 0, "name": "n", "arguments": {"a": "<&>"}}}]}
    cost = priced(message, BYTES_COUNTER).cost
    compact = '{"name":"n","arguments":{"a":"<&>"}}'
    assert cost.text == len("assistant") + len(compact)
    assert cost.spare == 2 + 3 * 5 + 1 + len("c") + 1
    assert cost.units == Units(messages=1, calls=1)


def test_a_result_costs_its_names_beside_its_text():
    cost = priced({"role": "tool", "tool_name": "n", "tool_call_id": "id", "content": "x"}, BYTES_COUNTER).cost
    assert (cost.text, cost.spare, cost.units) == (len("tool") + 1, 2 + len("n") + len("id") + 2, Units(results=1))


def test_a_request_costs_its_parts_and_the_reserve():
    parts = (priced_schema({"a": 1}, BYTES_COUNTER), priced({"role": "user", "content": "x"}, BYTES_COUNTER))
    sums = total(parts, BYTES_COUNTER)
    assert sums.text == len('{"a":1}') + len("user") + 1
    assert sums.upper == sums.text + 256 + 16 + 2 + 1 + 1
    assert sums.bytes == len('{"a":1}') + 1


def test_each_kind_has_its_own_overhead():
    counter = replace(BYTES_COUNTER, overhead=TemplateOverhead(request=1000, message=1, call=10, result=100))
    cost = Cost(text=0, spare=0, units=Units(messages=2, calls=3, results=4), bytes=0)
    assert cost.upper(counter) == 2 + 30 + 400
    assert total([Rendered({}, "", cost)], counter).upper == 1432


def test_a_rendered_request_tells_what_its_bound_is_made_of():
    parts = tuple(priced(message, BYTES_COUNTER) for message in ({"role": "system", "content": "x"}, {"role": "user", "content": "y"}))
    request = rendered_request((priced_schema({"a": 1}, BYTES_COUNTER),), parts, BYTES_COUNTER)
    assert request.units == Units(messages=2)
    assert request.admission_tokens == request.text_tokens + request.spare_tokens + 256 + 2 * 16
    assert request.admission_tokens == total((priced_schema({"a": 1}, BYTES_COUNTER), *parts), BYTES_COUNTER).upper
    assert request.digest == digest_of(request.prefix_digests)


def test_equal_messages_are_counted_once_per_tokenizer():
    counter, counted = a_counter()
    first = priced({"role": "user", "content": "once only"}, counter)
    before = len(counted)
    assert priced({"content": "once only", "role": "user"}, counter).cost == first.cost
    assert len(counted) == before
    other, again = a_counter()
    priced({"role": "user", "content": "once only"}, other)
    assert again


class Tokenizer:
    """Counts as a loaded tokenizer does: with a bound method."""

    def count(self, text: str) -> int:
        return len(text)


def test_remembered_costs_keep_no_tokenizer_loaded():
    seen = []
    for _ in range(4):
        tokenizer = Tokenizer()
        seen.append(weakref.ref(tokenizer))
        priced({"role": "user", "content": "x"}, replace(BYTES_COUNTER, count=tokenizer.count))
        gc.collect()
        assert [one() for one in seen if one() is not None] == [tokenizer]
