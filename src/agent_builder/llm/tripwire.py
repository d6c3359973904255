"""The tripwire for silent truncation: the fewest prompt tokens that a provider can honestly report for a request. Pure."""

import re
from collections.abc import Mapping

from agent_builder.protocol.limits import SEAM_TOKENS, TRIPWIRE_BYTES_PER_TOKEN, TRIPWIRE_TOKENS
from agent_builder.protocol.request import RenderedRequest

_RUNS = re.compile(r"(.)\1+", re.DOTALL)
_LEAVES_OUT_CACHED = re.compile(r"0\.30(\.|$|-)")


def counts_cached_tokens(version: str) -> bool:
    """Whether a server of this version reports cached prompt tokens too. One series did not."""
    return _LEAVES_OUT_CACHED.match(version) is None


def rough_bound(rendered: RenderedRequest, fixed_prefix: int, *, tools: bool) -> int:
    """Tokens, whatever the tokenizer; 0 where nothing can be said. `fixed_prefix`: what the provider itself once reported
    for the beginning that this request shares with the load request, 0 if it shares none. `tools`: of the model."""
    first = 1 if fixed_prefix else 0
    contents = [str(message["content"]) for message in rendered.messages[first:] if _is_surely_shown(message, tools=tools)]
    return _worth_applying((fixed_prefix + sum(map(_least_tokens, contents))) // 2)


def exact_bound(rendered: RenderedRequest, *, tools: bool) -> int:
    """Tokens of a request that was counted with the model's own tokenizer; 0 where nothing can be said. Templates may trim
    a text's blank ends, spell schemas in their own way, and join texts at their seams."""
    schemas, *sizes = rendered.prefix_tokens
    shown = [(size, str(message["content"])) for size, message in zip(sizes, rendered.messages, strict=True) if _is_surely_shown(message, tools=tools)]
    texts = sum(size - SEAM_TOKENS - len(text) + len(text.strip()) for size, text in shown)
    return _worth_applying(schemas // 2 + texts)


def _is_surely_shown(message: Mapping[str, object], *, tools: bool) -> bool:
    """Some templates leave out the calls of a message that has text too; those of a model without tools know neither calls
    nor results."""
    return "tool_calls" not in message and (tools or message["role"] != "tool")


def _worth_applying(bound: int) -> int:
    return bound if bound >= TRIPWIRE_TOKENS else 0


def _least_tokens(text: str) -> int:
    """Of ordinary text no token has more than 16 bytes, once runs of one character are collapsed."""
    return len(_RUNS.sub(r"\1", text).encode()) // TRIPWIRE_BYTES_PER_TOKEN
