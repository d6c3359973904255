"""Everything an operator may ask to be changed: one frozen record per command, typed by what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from agent_builder.agents.research_envs import ResearchStatus
from agent_builder.conversations.engine import Accepted, Submission
from agent_builder.conversations.engines import Continued
from agent_builder.storage.conversations import ConversationRow
from agent_builder.storage.registry import AgentRow
from agent_builder.storage.skills import SkillRow
from agent_builder.storage.tasks import TaskRow
from agent_builder.tools.permissions import PermissionView

Result_co = TypeVar("Result_co", covariant=True)

Stopped = Literal["accepted", "stale"]
"""`accepted`: the request to stop is taken. `stale`: there is nothing to stop under this id any more."""


@dataclass(frozen=True, slots=True)
class Command(Generic[Result_co]):
    """Base of all commands; the parameter is what dispatching gives back."""


@dataclass(frozen=True, slots=True)
class CreateAgent(Command[AgentRow]):
    name: str


@dataclass(frozen=True, slots=True)
class RenameAgent(Command[AgentRow]):
    agent_id: str
    name: str


@dataclass(frozen=True, slots=True)
class UpgradeAgent(Command[AgentRow]):
    agent_id: str


@dataclass(frozen=True, slots=True)
class DeleteAgent(Command[AgentRow]):
    agent_id: str


@dataclass(frozen=True, slots=True)
class InstallResearchEnv(Command[ResearchStatus]):
    agent_id: str


@dataclass(frozen=True, slots=True)
class RemoveResearchEnv(Command[None]):
    agent_id: str


@dataclass(frozen=True, slots=True)
class CreateConversation(Command[ConversationRow]):
    agent_id: str
    title: str | None


@dataclass(frozen=True, slots=True)
class RenameConversation(Command[ConversationRow]):
    agent_id: str
    conversation_id: str
    title: str


@dataclass(frozen=True, slots=True)
class DeleteConversation(Command[None]):
    agent_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class ContinueConversation(Command[Continued]):
    agent_id: str
    conversation_id: str
    mode: Literal["continue", "branch"]


@dataclass(frozen=True, slots=True)
class SubmitTurn(Command[Accepted]):
    agent_id: str
    conversation_id: str
    submission: Submission


@dataclass(frozen=True, slots=True)
class CancelPreparation(Command[Stopped]):
    agent_id: str
    conversation_id: str
    operation_id: str


@dataclass(frozen=True, slots=True)
class CancelRun(Command[Stopped]):
    agent_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class DecidePermission(Command[PermissionView]):
    agent_id: str
    permission_id: str
    decision: Literal["approve", "deny"]
    reason: str | None


@dataclass(frozen=True, slots=True)
class SubmitTask(Command[TaskRow]):
    """One runtime-compile beside the Run."""

    agent_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class CancelTask(Command[Stopped]):
    agent_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class InstallSkill(Command[SkillRow]):
    agent_id: str
    archive: bytes


@dataclass(frozen=True, slots=True)
class SetSkillActive(Command[SkillRow]):
    agent_id: str
    skill_id: str
    active: bool


@dataclass(frozen=True, slots=True)
class RemoveSkill(Command[None]):
    agent_id: str
    skill_id: str


@dataclass(frozen=True, slots=True)
class Said:
    """One line: its code, what fills it in, and the whole in English."""

    code: str
    values: Mapping[str, str | int]
    text: str


@dataclass(frozen=True, slots=True)
class SlashOutcome:
    """What a slash command says, whole in `output` and line by line, and what the page shall send with the next ordinary Turn."""

    output: str
    model_id: str | None = None
    compact: bool | None = None
    lines: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSlash(Command[SlashOutcome]):
    agent_id: str
    conversation_id: str
    input: str
