"""What messages and tool schemas cost in tokens. Counted once per text and tokenizer, then remembered by digest.

A provider's chat template may spell JSON with or without blanks, and Go escapes `<`, `>` and `&`; the cost covers the
longest of the three.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.limits import COSTS_REMEMBERED, TOKENIZERS_LOADED
from agent_builder.protocol.request import TokenCounter

Message = dict[str, object]


@dataclass(frozen=True, slots=True)
class Cost:
    """`text`: the counter's sum over what is sent. `spare`: tokens more that another spelling, names or seams may take.
    `units`: how often the template's overhead per message applies. `bytes`: of the contents."""

    text: int
    spare: int
    units: int
    bytes: int

    def upper(self, counter: TokenCounter) -> int:
        return self.text + self.spare + self.units * counter.per_message


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message (or tool schema) as the provider gets it, named by its digest."""

    message: Message
    digest: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a request. `upper` has every reserve in it."""

    text: int
    upper: int
    bytes: int


def total(parts: tuple[Rendered, ...], counter: TokenCounter) -> Totals:
    return Totals(
        text=sum(part.cost.text for part in parts),
        upper=counter.reserve + sum(part.cost.upper(counter) for part in parts),
        bytes=sum(part.cost.bytes for part in parts),
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
    spare, units = 2, 1
    if "tool_name" in message:
        spare += count(str(message["tool_name"])) + count(str(message["tool_call_id"])) + 2
    for call in _calls(message):
        function = call["function"]
        cost = _json_cost({"name": function["name"], "arguments": function["arguments"]}, count)
        text, spare, units = text + cost.text, spare + cost.spare + count(str(call["id"])) + 1, units + 1
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
    return Cost(tokens, longest - tokens + 1, 0, len(compact.encode()))


T = TypeVar("T")
_MEMORY: dict[Callable[[str], int], dict[str, object]] = {}


def remembered(counter: TokenCounter, digest: str, make: Callable[[], T]) -> T:
    """The value for this digest under this tokenizer, made once while it is remembered. One digest always stands for one
    type of value. Threads may meet here: each step is one atomic operation of a dict, and making twice is harmless."""
    memory = _MEMORY.get(counter.count)
    if memory is None:
        if len(_MEMORY) > TOKENIZERS_LOADED:
            _MEMORY.clear()
        memory = _MEMORY.setdefault(counter.count, {})
    found = memory.get(digest)
    if found is None:
        found = make()
        if len(memory) >= COSTS_REMEMBERED:
            memory.clear()
        memory[digest] = found
    return found  # type: ignore[return-value]
