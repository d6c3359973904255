"""The tripwire for silent truncation: the fewest prompt tokens that a provider can honestly report for a request. Pure."""

import re

from agent_builder.protocol.limits import SEAM_TOKENS, TRIPWIRE_BYTES_PER_TOKEN, TRIPWIRE_TOKENS
from agent_builder.protocol.request import RenderedRequest

_RUNS = re.compile(r"(.)\1+", re.DOTALL)
_LEAVES_OUT_CACHED = re.compile(r"0\.30(\.|$|-)")


def counts_cached_tokens(version: str) -> bool:
    """Whether a server of this version reports cached prompt tokens too. One series did not."""
    return _LEAVES_OUT_CACHED.match(version) is None


def lower_bound(rendered: RenderedRequest, fixed_prefix: int) -> int:
    """Tokens; 0 where nothing can be said. `fixed_prefix`: what the provider itself once reported for the beginning that
    this request shares with the load request, 0 if it shares none (only used where counts are not exact)."""
    contents = [str(message.get("content", "")) for message in rendered.messages]
    if rendered.exact:
        bound = _exact(rendered, contents)
    else:
        rest = contents[1:] if fixed_prefix else contents
        bound = (fixed_prefix + sum(map(_least_tokens, rest))) // 2
    return bound if bound >= TRIPWIRE_TOKENS else 0


def _exact(rendered: RenderedRequest, contents: list[str]) -> int:
    """Templates may trim a text's blank ends, spell schemas in their own way, and join texts at their seams."""
    trimmed = sum(len(text) - len(text.strip()) for text in contents)
    schemas = rendered.prefix_tokens[0] if rendered.prefix_tokens else 0
    return rendered.text_tokens - (schemas + 1) // 2 - trimmed - SEAM_TOKENS * len(contents)


def _least_tokens(text: str) -> int:
    """Of ordinary text no token has more than 16 bytes, once runs of one character are collapsed."""
    return len(_RUNS.sub(r"\1", text).encode()) // TRIPWIRE_BYTES_PER_TOKEN
