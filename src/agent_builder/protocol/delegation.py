"""A delegation: one message from an Agent's Run to another Agent, as tools and subagents speak of it."""

from dataclasses import dataclass
from typing import Literal

from agent_builder.protocol.events import RunIdentity

ChildState = Literal["completed", "failed", "cancelled", "interrupted"]


@dataclass(frozen=True, slots=True)
class OtherAgent:
    """An active Agent that may be asked, as it is now."""

    agent_id: str
    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class Delegation:
    """What the operator has approved. `asking`: the parent Run. `wall_s`: seconds until the child Run must have ended.
    `model_id`: the parent Run's model; the child's answer comes from the same one."""

    asking: RunIdentity
    target: OtherAgent
    message: str
    wall_s: float
    model_id: str


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How it ended. `answer`: the child's, only of a completed one. `reason`: how that answer ended (stop, max_output, ...).
    `code`: an error code, or `wall_clock`; `sentence` says it. `run_id`: None where no child Run began."""

    state: ChildState
    task_id: str
    conversation_id: str
    run_id: str | None = None
    answer: str | None = None
    reason: str | None = None
    code: str | None = None
    sentence: str = ""


class DelegationRefused(Exception):
    """Nothing was begun. `code` is a stable word, `sentence` says what would help."""

    def __init__(self, code: str, sentence: str) -> None:
        self.code = code
        self.sentence = sentence
        super().__init__(sentence)
