"""semantic-summary-v2: how a model is asked for notes on the oldest Turns, and what is accepted as its answer."""

import json
from collections.abc import Sequence

from agent_builder.context.costs import priced, rendered_request
from agent_builder.context.inputs import Summary
from agent_builder.context.instructions import summary_rules
from agent_builder.context.notes import excerpt
from agent_builder.context.overhead import without_tools
from agent_builder.context.parts import note_room, source_digest
from agent_builder.context.render import fenced, note_messages, system_message, user_message
from agent_builder.protocol.limits import (
    SUMMARY_BYTES,
    SUMMARY_EXCERPT_BYTES,
    SUMMARY_EXCERPT_STEPS,
    SUMMARY_WORD_TOKENS,
    SUMMARY_WORDS,
)
from agent_builder.protocol.messages import CompletedTurnContext
from agent_builder.protocol.request import RenderedRequest, TokenCounter

KIND = "semantic-summary-v2"
_OLD_KIND = "semantic-summary-v1"


def summary_request(
    bundles: Sequence[CompletedTurnContext], parent: str | None, room: int, counter: TokenCounter, words: int = SUMMARY_WORDS
) -> RenderedRequest | None:
    """Asks for notes of `words` words on `bundles` that carry on `parent`. Rules stand alone in the system role; all else is data. Messages are
    cut as far as needed for the request to have at most `room` tokens; None when it cannot."""
    for step in range(SUMMARY_EXCERPT_STEPS):
        text = _source(bundles, parent, SUMMARY_EXCERPT_BYTES >> step)
        messages = (priced(system_message([summary_rules(words)]), counter), priced(user_message(text), counter))
        request = rendered_request((), messages, without_tools(counter))
        if request.admission_tokens <= room:
            return request
    return None


def summary_words(input_budget: int) -> int:
    """As many as surely fit where the notes will stand."""
    return min(SUMMARY_WORDS, note_room(input_budget) // SUMMARY_WORD_TOKENS)


def _source(bundles: Sequence[CompletedTurnContext], parent: str | None, room: int) -> str:
    conversation = fenced("conversation", "\n".join(_spoken(bundle, room) for bundle in bundles))
    if parent is None:
        return f"{conversation}\nWrite the notes."
    return f"{fenced('notes so far', parent)}\n{conversation}\nWrite new notes that hold both."


def _spoken(bundle: CompletedTurnContext, room: int) -> str:
    calls = [f"Tool: {call.tool_id} {call.outcome}" for exchange in bundle.exchanges for call in exchange.calls]
    return "\n".join([f"User: {excerpt(bundle.user_text, room)}", *calls, f"Assistant: {excerpt(bundle.answer, room)}"])


def accepted(text: str, input_budget: int, counter: TokenCounter) -> str | None:
    """The notes in an answer, or None when they are empty or too long to stand in a request."""
    notes = text.strip()
    if not notes or len(notes.encode()) > SUMMARY_BYTES:
        return None
    tokens = sum(priced(message, counter).cost.upper(counter) for message in note_messages(notes))
    return notes if tokens <= note_room(input_budget) else None


def covers(history: Sequence[CompletedTurnContext], covered: int, digest: str) -> bool:
    """Whether notes with this source digest speak of exactly the oldest `covered` Turns."""
    return 0 < covered <= len(history) and source_digest(history[:covered]) == digest


def decoded(kind: str, text: str, covered: int) -> Summary:
    """Stored notes. The old kind held one JSON object `{"version": 1, "summary": …}`; it is only read. Raises ValueError."""
    if kind == KIND:
        return Summary(covered, text)
    if kind != _OLD_KIND:
        raise ValueError("unknown kind of summary")
    value = json.loads(text)
    if not isinstance(value, dict) or set(value) != {"version", "summary"} or value["version"] != 1 or not isinstance(value["summary"], str):
        raise ValueError("not a summary of the old kind")
    return Summary(covered, value["summary"])
