"""RenderedRequest: one provider request as planned and counted, and TokenCounter, the function it was counted with."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """`count` gives the tokens of one text, exact or an upper bound. `per_message` and `reserve` bound what the chat
    template adds: tokens per message and per request."""

    name: str
    count: Callable[[str], int]
    per_message: int
    reserve: int
    exact: bool


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """`messages` and `tools` go to the provider as they are (Ollama chat shape). `admission_tokens` is the upper bound that
    was admitted, `text_tokens` the counter's sum without template reserves, `message_bytes` the UTF-8 bytes of all contents.
    `prefix_digests` names each message in turn (digest of tools, then of each message), so that two requests can be compared."""

    messages: tuple[dict[str, object], ...]
    tools: tuple[dict[str, object], ...]
    admission_tokens: int
    text_tokens: int
    message_bytes: int
    counter: str
    exact: bool
    digest: str
    prefix_digests: tuple[str, ...]
    prefix_tokens: tuple[int, ...]
