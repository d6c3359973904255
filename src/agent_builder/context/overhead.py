"""What a model's chat template adds, learnt from exact counts: upper bounds, since every part of an overhead is at most the whole.

Values only fall, as each change may move the point of compaction and so cost a provider its evaluated prefix; a report above
an admitted bound disproves what was learnt, and all begins anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agent_builder.context.costs import Message
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.request import START_OVERHEAD, RenderedRequest, TemplateOverhead, TokenCounter, Units


@dataclass(frozen=True, slots=True)
class Seen:
    """An earlier request of the same scope: the counter's tokens of its texts, and the tokens that the provider reported."""

    request_digest: str
    text: int
    units: Units
    observed: int


def learn(before: TemplateOverhead, rendered: RenderedRequest, observed: int, earlier: Sequence[Seen]) -> TemplateOverhead:
    """What is known after a provider reported `observed` tokens for this exactly counted request."""
    if observed > rendered.admission_tokens:
        return START_OVERHEAD
    template = observed - rendered.text_tokens
    if template < len(rendered.messages):
        return before  # tokens that the provider had cached may be missing
    learnt = replace(before, request=min(before.request, template)) if _is_telling(rendered, 0) else before
    for one in earlier:
        shared = one.units.messages + one.units.results
        if _continues(rendered, shared, one.request_digest) and _is_telling(rendered, shared):
            learnt = _from_growth(learnt, template - (one.observed - one.text), rendered.units - one.units)
    return learnt


def without_tools(counter: TokenCounter) -> TokenCounter:
    """For a request that leaves out the tools with which all others are observed: the template may say other words then."""
    return replace(counter, overhead=replace(counter.overhead, request=START_OVERHEAD.request))


def _continues(rendered: RenderedRequest, shared: int, digest: str) -> bool:
    """Whether the first `shared` messages are a whole earlier request that ended with the user's words: what a template adds
    to answers since then (an empty thought, for example) goes again with the next such words."""
    return digest_of(rendered.prefix_digests[: 1 + shared]) == digest and rendered.messages[shared - 1]["role"] == "user"


def _from_growth(known: TemplateOverhead, more: int, units: Units) -> TemplateOverhead:
    """`more`: tokens of the template by which a request outgrew an earlier one that it continues with these `units`."""
    if more < 0:
        return known
    return TemplateOverhead(
        known.request, _share(known.message, more, units.messages), _share(known.call, more, units.calls),
        _share(known.result, more, units.results),
    )


def _share(known: int, more: int, count: int) -> int:
    return min(known, -(-more // count)) if count else known


def _is_telling(rendered: RenderedRequest, first: int) -> bool:
    """Whether a template surely shows all of the messages from `first` on, each by itself. What it saved by joining neighbours
    of one role, or by leaving something out, would be taken for a small overhead."""
    roles = [message["role"] for message in rendered.messages[max(0, first - 1) :]]
    shown = all(_is_surely_shown(message, tools=bool(rendered.tools)) for message in rendered.messages[first:])
    return shown and all(one != other for one, other in pairwise(roles))


def _is_surely_shown(message: Message, *, tools: bool) -> bool:
    """Templates may trim blank ends, leave out the calls of a message that has words, too, and know neither calls nor results
    where no tools are offered."""
    text, calls = str(message["content"]), "tool_calls" in message
    of_tools = calls or message["role"] == "tool"
    return text == text.strip() and not (calls and text) and (tools or not of_tools)
