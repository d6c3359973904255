"""What messages, tool schemas and whole requests cost in tokens. Texts are counted once per tokenizer, then remembered by digest.

A provider's chat template may spell JSON with or without blanks, and Go escapes `<`, `>` and `&`; the cost covers the
longest of the three.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.limits import COSTS_REMEMBERED
from agent_builder.protocol.request import RenderedRequest, TokenCounter, Units

Message = dict[str, object]


@dataclass(frozen=True, slots=True)
class Cost:
    """`text`: the counter's sum over what is sent. `spare`: tokens more that another spelling, names or seams may take.
    `units`: what the template's overhead applies to. `bytes`: of the contents."""

    text: int
    spare: int
    units: Units
    bytes: int

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.text + other.text, self.spare + other.spare, self.units + other.units, self.bytes + other.bytes)

    def upper(self, counter: TokenCounter) -> int:
        return self.text + self.spare + counter.overhead.of(self.units)


NOTHING = Cost(0, 0, Units(), 0)


def summed(costs: Iterable[Cost]) -> Cost:
    return sum(costs, NOTHING)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message (or tool schema) as the provider gets it, named by its digest."""

    message: Message
    digest: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a request. `upper` has the template's overhead in it."""

    text: int
    upper: int
    bytes: int


def total(parts: Iterable[Rendered], counter: TokenCounter) -> Totals:
    cost = summed(part.cost for part in parts)
    return Totals(text=cost.text, upper=cost.upper(counter) + counter.overhead.request, bytes=cost.bytes)


def rendered_request(tools: tuple[Rendered, ...], messages: tuple[Rendered, ...], counter: TokenCounter) -> RenderedRequest:
    """The request of these parts, under their digests."""
    cost = summed(part.cost for part in (*tools, *messages))
    digests = (digest_of([part.digest for part in tools]), *(part.digest for part in messages))
    return RenderedRequest(
        messages=tuple(part.message for part in messages), tools=tuple(part.message for part in tools),
        admission_tokens=cost.upper(counter) + counter.overhead.request, text_tokens=cost.text, spare_tokens=cost.spare, units=cost.units,
        message_bytes=sum(part.cost.bytes for part in messages), counter=counter.name, exact=counter.exact, digest=digest_of(digests),
        prefix_digests=digests, prefix_tokens=(sum(part.cost.text for part in tools), *(part.cost.text for part in messages)),
    )


def priced(message: Message, counter: TokenCounter) -> Rendered:
    digest = digest_of(message)
    return Rendered(message, digest, remembered(counter, digest, lambda: message_cost(message, counter)))


def priced_schema(schema: Message, counter: TokenCounter) -> Rendered:
    digest = digest_of(schema)
    return Rendered(schema, digest, remembered(counter, digest, lambda: _json_cost(schema, counter.count)))


def message_cost(message: Message, counter: TokenCounter) -> Cost:
    """Counted anew; `priced` remembers."""
    count = counter.count
    content = str(message["content"])
    text = count(content) + count(str(message["role"]))
    spare, calls = 2, _calls(message)
    units = Units(messages=1, calls=len(calls))
    if "tool_name" in message:
        spare += count(str(message["tool_name"])) + count(str(message["tool_call_id"])) + 2
        units = Units(results=1)
    for call in calls:
        function = call["function"]
        cost = _json_cost({"name": function["name"], "arguments": function["arguments"]}, count)
        text, spare = text + cost.text, spare + cost.spare + count(str(call["id"])) + 1
    return Cost(text, spare, units, len(content.encode()))


def _calls(message: Message) -> list[dict[str, dict[str, object]]]:
    calls = message.get("tool_calls", [])
    assert isinstance(calls, list)
    return calls


def _json_cost(value: Message, count: Callable[[str], int]) -> Cost:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    spaced = json.dumps(value, ensure_ascii=False)
    escaped = compact.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    tokens = count(compact)
    longest = max(tokens, count(spaced), count(escaped) if escaped != compact else 0)
    return Cost(tokens, longest - tokens + 1, Units(), len(compact.encode()))


T = TypeVar("T")
_MEMORY: WeakKeyDictionary[object, dict[str, object]] = WeakKeyDictionary()


def remembered(counter: TokenCounter, digest: str, make: Callable[[], T]) -> T:
    """The value for this digest under this tokenizer, made once while it is remembered, and never longer than the tokenizer
    itself is loaded. One digest always stands for one type of value. Threads may meet here: each step is one atomic operation
    of a dict, and making twice is harmless."""
    tokenizer = getattr(counter.count, "__self__", counter.count)  # of which a bound method would be another object each time
    memory = _MEMORY.setdefault(tokenizer, {})
    found = memory.get(digest)
    if found is None:
        found = make()
        if len(memory) >= COSTS_REMEMBERED:
            memory.clear()
        memory[digest] = found
    return found  # type: ignore[return-value]
