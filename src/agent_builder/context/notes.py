"""Notes on the Turns that have left: a summary where there is one, and one shortened line for each Turn that it does not
cover. The lines need no model and are always the same for the same Turns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_builder.context.costs import Rendered, priced
from agent_builder.context.inputs import Summary
from agent_builder.context.render import note_messages
from agent_builder.protocol.limits import COLLAPSE_BYTES, COLLAPSE_STEPS, COLLAPSE_TEXT_BYTES, COLLAPSE_TEXT_SHARE
from agent_builder.protocol.messages import CompletedTurnContext
from agent_builder.protocol.request import TokenCounter


@dataclass(frozen=True, slots=True)
class Notes:
    """`collapsed`: how many Turns the text speaks of."""

    text: str
    messages: tuple[Rendered, ...]
    collapsed: int


NO_NOTES = Notes("", (), 0)


def notes_of(gone: Sequence[CompletedTurnContext], summary: Summary | None, room: int, counter: TokenCounter) -> Notes:
    """The fullest notes within `room` tokens: summary and lines, the summary, the lines, or nothing. Beside a summary stands
    the line of the very first Turn: a summary that is carried on again and again may lose what all began with."""
    for text, collapsed in _candidates(gone, summary):
        messages = tuple(priced(message, counter) for message in note_messages(text)) if text else ()
        if messages and sum(part.cost.upper(counter) for part in messages) <= room:
            return Notes(text, messages, collapsed)
    return NO_NOTES


def _candidates(gone: Sequence[CompletedTurnContext], summary: Summary | None) -> Iterator[tuple[str, int]]:
    """A window of any size gets its first Turn's line at least: the lines are tried in fewer and fewer bytes."""
    sizes = [COLLAPSE_BYTES >> step for step in range(COLLAPSE_STEPS)]
    if summary is not None and 0 < summary.covered <= len(gone):
        covered = summary.covered
        for size in sizes:
            lines, spoken_of = collapse(gone, covered, size)
            yield "\n".join(part for part in (_line(0, gone[0], size), summary.text, lines) if part), covered + spoken_of
        yield summary.text, covered
    for size in sizes:
        yield collapse(gone, 0, size)


def collapse(gone: Sequence[CompletedTurnContext], first: int, size: int) -> tuple[str, int]:
    """A line for each Turn from index `first` on, within `size` bytes: the very first Turn, which often says what all is
    about, then the newest ones. Gives the lines in order and their number."""
    chosen: dict[int, str] = {}
    room = size
    order = [0, *range(len(gone) - 1, 0, -1)] if first == 0 else list(range(len(gone) - 1, first - 1, -1))
    for index in order[: len(gone) - first]:
        line = _line(index, gone[index], size)
        room -= len(line.encode()) + 1
        if room < 0:
            break
        chosen[index] = line
    return "\n".join(chosen[index] for index in sorted(chosen)), len(chosen)


def _line(index: int, bundle: CompletedTurnContext, size: int) -> str:
    """Of lines within `size` bytes."""
    each = min(COLLAPSE_TEXT_BYTES, size // COLLAPSE_TEXT_SHARE)
    return f"Turn {index + 1}: {excerpt(bundle.user_text, each)} => {excerpt(bundle.answer, each)}"


def excerpt(text: str, room: int) -> str:
    """The beginning of a text on one line, cut at a code point."""
    flat = " ".join(text.split())
    data = flat.encode()
    return flat if len(data) <= room else data[: room - len("…".encode())].decode(errors="ignore") + "…"
