"""RenderedRequest: one provider request as planned and counted, and TokenCounter, the function it was counted with."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_builder.protocol.limits import MESSAGE_TEMPLATE_TOKENS, REQUEST_TEMPLATE_TOKENS


@dataclass(frozen=True, slots=True)
class Units:
    """How many there are of each kind to which a chat template adds something: plain messages (system, user, assistant),
    tool calls inside them, and tool result messages."""

    messages: int = 0
    calls: int = 0
    results: int = 0

    def __add__(self, other: "Units") -> "Units":
        return Units(self.messages + other.messages, self.calls + other.calls, self.results + other.results)

    def __sub__(self, other: "Units") -> "Units":
        return Units(self.messages - other.messages, self.calls - other.calls, self.results - other.results)


@dataclass(frozen=True, slots=True)
class TemplateOverhead:
    """Upper bounds in tokens of what a chat template adds to the texts: once per request, and per unit of each kind."""

    request: int
    message: int
    call: int
    result: int

    def of(self, units: Units) -> int:
        """For these units, without the request's own."""
        return units.messages * self.message + units.calls * self.call + units.results * self.result


START_OVERHEAD = TemplateOverhead(REQUEST_TEMPLATE_TOKENS, MESSAGE_TEMPLATE_TOKENS, MESSAGE_TEMPLATE_TOKENS, MESSAGE_TEMPLATE_TOKENS)
"""Holds for any template, as long as nothing was learnt about this one."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """`count` gives the tokens of one text, exact or an upper bound; `overhead` bounds what the chat template adds."""

    name: str
    count: Callable[[str], int]
    exact: bool
    overhead: TemplateOverhead = START_OVERHEAD


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """`messages` and `tools` go to the provider as they are (Ollama chat shape). `admission_tokens` is the upper bound that
    was admitted: the sum of `text_tokens` (what was counted), `spare_tokens` (for other spellings and seams) and the template's
    overhead of `units`. `message_bytes`: the UTF-8 bytes of all contents. `prefix_digests` names each message in turn (digest
    of tools, then of each message), so that two requests can be compared; `digest` is the digest of that list."""

    messages: tuple[dict[str, object], ...]
    tools: tuple[dict[str, object], ...]
    admission_tokens: int
    text_tokens: int
    spare_tokens: int
    units: Units
    message_bytes: int
    counter: str
    exact: bool
    digest: str
    prefix_digests: tuple[str, ...]
    prefix_tokens: tuple[int, ...]
