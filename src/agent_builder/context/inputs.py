"""PlanInputs: everything a plan is made from, read before planning begins."""

from dataclasses import dataclass, field
from datetime import date

from agent_builder.context.estimate import Calibration, calibrate
from agent_builder.context.toolset import EffectiveToolSet
from agent_builder.protocol.limits import (
    CONTINUATION_BYTES_PER_TOKEN,
    CONTINUATION_HEADROOM_SHARE,
    CONTINUATION_MESSAGE_TOKENS,
    CONTINUATION_RESULT_BYTES,
)
from agent_builder.protocol.messages import Attachment, CompletedTurnContext
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.request import TokenCounter

UNCALIBRATED = calibrate((), exact=False)


@dataclass(frozen=True, slots=True)
class Summary:
    """Notes on the oldest `covered` Turns, as a model wrote them."""

    covered: int
    text: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an Agent has at this moment beside its files. `tools`: ids of the optional Tools that it makes possible. `lines`: what a
    model must know to use them, names and descriptions that others wrote."""

    tools: frozenset[str] = frozenset()
    lines: tuple[str, ...] = ()


NOTHING_AROUND = Surroundings()


def joined(*parts: Surroundings) -> Surroundings:
    """All of it, the lines in the order of the parts."""
    return Surroundings(frozenset().union(*(part.tools for part in parts)), tuple(line for part in parts for line in part.lines))


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """`history`: all completed Turns, oldest first. `instructions`: the text of workspace/agent-builder.md. `around`: see Surroundings.
    `compacted`: how many of the oldest Turns left at the operator's word before; `compact`: the operator asks now."""

    model: QualifiedModel
    toolset: EffectiveToolSet
    today: date
    user_text: str
    history: tuple[CompletedTurnContext, ...] = ()
    instructions: str | None = None
    around: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    git_status: str | None = None
    summary: Summary | None = None
    compacted: int = 0
    compact: bool = False
    calibration: Calibration = field(default=UNCALIBRATED)


def continuation_headroom(model: QualifiedModel, toolset: EffectiveToolSet, counter: TokenCounter) -> int:
    """Tokens kept free before a Turn's first call: the next message and, with tools, one result. A small window keeps at
    most its share, or nothing would be left for the message itself."""
    wanted = CONTINUATION_MESSAGE_TOKENS
    if toolset.specs:
        wanted += CONTINUATION_RESULT_BYTES // (CONTINUATION_BYTES_PER_TOKEN if counter.exact else 1)
    return min(wanted, model.input_budget // CONTINUATION_HEADROOM_SHARE)
