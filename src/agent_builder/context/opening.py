"""What is decided before a request is drafted: how many of the oldest Turns leave, and whether the Git status stands behind
the message.

A past Turn is sized as it was stored, so a later Turn replays the same decision only where the message that was weighed is
the message that was sent: the status is weighed when it is shown, and only then.
"""

from bisect import bisect_right
from dataclasses import dataclass

from agent_builder.context.compaction import Past, past_turns
from agent_builder.context.costs import Rendered, priced
from agent_builder.context.inputs import PlanInputs
from agent_builder.context.parts import FixedParts, history_room, turn_sizes, weight, within_share
from agent_builder.context.render import git_block, last_git_block, preface_of, user_message
from agent_builder.protocol.limits import GIT_STATUS_SHARE
from agent_builder.protocol.request import TokenCounter

MORE_CHANGES = "(more changes than shown)\n"


@dataclass(frozen=True, slots=True)
class Opening:
    """`start`: Turns that leave. `git`: the status to show; None for none."""

    start: int
    git: str | None


def opening(inputs: PlanInputs, fixed: FixedParts, headroom: int, counter: TokenCounter) -> Opening:
    """A status that is only news makes no Turn leave: where it has no room it waits until Turns have left anyway. One that
    the operator speaks of is shown wherever it can be admitted."""
    past = _past(inputs, fixed, headroom, counter)
    start = past.start_for(_weight(inputs, None, counter), compact=inputs.compact)
    git = _news(inputs, start, counter)
    if git is None:
        return Opening(start, None)
    message = _weight(inputs, git, counter)
    with_git = past.start_for(message, compact=inputs.compact)
    if past.admits(with_git, message) and (with_git == start or inputs.compact or _asked_for(inputs)):
        return Opening(with_git, git)
    return Opening(start, None)


def message_room(inputs: PlanInputs, fixed: FixedParts, headroom: int, counter: TokenCounter, most: int) -> int:
    """The largest message, up to `most` tokens, that makes no Turn leave beside those that leave for the shortest one."""
    past, bare = _past(inputs, fixed, headroom, counter), user_part(inputs, None, counter).cost
    inflation = inputs.calibration.inflation()

    def start_for(tokens: int) -> int:
        return past.start_for(weight(bare, counter, inflation, more=tokens))

    return bisect_right(range(most + 1), start_for(0), key=start_for) - 1


def user_part(inputs: PlanInputs, git: str | None, counter: TokenCounter) -> Rendered:
    preface = preface_of(inputs.attachments, git, tools=bool(inputs.toolset.specs))
    return priced(user_message(inputs.user_text, preface), counter)


def _past(inputs: PlanInputs, fixed: FixedParts, headroom: int, counter: TokenCounter) -> Past:
    sizes = turn_sizes(inputs.history, counter, inputs.calibration.inflation())
    return past_turns(sizes, history_room(inputs, fixed, headroom, counter), floor=min(inputs.compacted, len(sizes)))


def _weight(inputs: PlanInputs, git: str | None, counter: TokenCounter) -> int:
    return weight(user_part(inputs, git, counter).cost, counter, inputs.calibration.inflation())


def _news(inputs: PlanInputs, start: int, counter: TokenCounter) -> str | None:
    """A status that the model has not before it already, or that the operator speaks of. A clean one is not worth a first
    mention."""
    if inputs.git_status is None:
        return None
    shown = last_git_block(inputs.history[start:])
    status = within_share(inputs.git_status, inputs.model.input_budget // GIT_STATUS_SHARE, MORE_CHANGES, counter)
    if shown is None:
        return status or None
    return status if _asked_for(inputs) or git_block(status) not in shown else None


def _asked_for(inputs: PlanInputs) -> bool:
    return "git" in inputs.user_text.lower()
