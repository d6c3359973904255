"""What the interface answers: one model per object. Optional fields without a value are left out."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_builder.capsule.research_install import FaultCode
from agent_builder.protocol.errors import leaf_classes
from agent_builder.protocol.events import Event
from agent_builder.protocol.messages import Usage

Id = Annotated[str, Field(json_schema_extra={"format": "uuid"})]
TurnState = Literal["preparing", "running", "completed", "failed", "cancelled", "interrupted"]
PermissionState = Literal["pending", "approved", "denied", "expired", "stale"]
Code = Annotated[str, Field(json_schema_extra={"enum": sorted(leaf_classes())})]


class Answer(BaseModel):
    """`nulls`: fields without a value are shown as null instead of being left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # built at first use: a start needs few of them
    nulls: ClassVar[bool] = False

    def to_json(self) -> str:
        return self.model_dump_json(exclude_none=not self.nulls)


class ErrorShape(Answer):
    """`message` is one sentence for the operator. `details` may name a `field`, a bound, `retry_after_s`, or an `incident`."""

    code: Code
    message: str
    retryable: bool
    details: dict[str, object] | None = None


class ErrorAnswer(Answer):
    error: ErrorShape


class HealthModel(Answer):
    """`reason`: an error code while the default model is not ready."""

    ready: bool
    reason: str | None = None


class HealthSandbox(Answer):
    ready: bool


class HealthAnswer(Answer):
    """`prototype` is a field of an older protocol and says nothing about support. Processes are counted, never named."""

    status: Literal["loading", "ready", "degraded", "draining"]
    release: str | None = None
    prototype: bool | None = None
    model: HealthModel | None = None
    sandbox: HealthSandbox | None = None
    active_runs: int | None = None
    spare_workers: int | None = None


class SessionAnswer(Answer):
    authenticated: bool
    csrf_token: str | None = None


class LoginAnswer(Answer):
    csrf_token: str


class AgentAnswer(Answer):
    """`running`: active Runs of the Agent. `waiting`: calls that wait for a decision."""

    agent_id: Id
    name: str
    system: bool
    generation: int
    phase: str
    running: int
    created_at: datetime
    waiting: int = 0


class AgentsAnswer(Answer):
    items: list[AgentAnswer]


class PackageAnswer(Answer):
    name: str
    version: str


class ResearchProgressAnswer(Answer):
    """`waiting`: for the installation of another Agent. `packages_done`: how many are fetched and in place; `packages_total` is 0 while it waits."""

    step: Literal["waiting", "downloading", "checking", "finishing"]
    packages_done: int
    packages_total: int
    elapsed_s: int


class ResearchErrorAnswer(Answer):
    """Why the last installation failed, and in `message` what helps. Nothing was installed; what was downloaded is kept."""

    code: FaultCode
    message: str


class ResearchEnvAnswer(Answer):
    """An Agent's research and document environment. `version`, `packages` and `installed_at` of the installed one. `outdated`: one is
    there that was made for another version of Agent Builder or of Python; no Run uses it."""

    state: Literal["absent", "installing", "installed", "removing", "failed"]
    version: str | None = None
    packages: list[PackageAnswer] | None = None
    installed_at: datetime | None = None
    outdated: bool = False
    progress: ResearchProgressAnswer | None = None
    error: ResearchErrorAnswer | None = None


class ModelAnswer(Answer):
    """Window and output cap in tokens. `reason`: why the entry is not available; `reason_code`: an error code,
    `switched_off` or `window_too_small`. `estimator`: how its tokens are counted, and why not exactly."""

    model_id: str
    label: str
    capabilities: list[str]
    window: int
    output_cap: int
    available: bool
    reason: str | None = None
    default: bool
    estimator: str | None = None
    estimator_reason: str | None = None
    reason_code: str | None = None


class ModelsAnswer(Answer):
    items: list[ModelAnswer]


class ConversationAnswer(Answer):
    conversation_id: Id
    title: str
    created_at: datetime
    updated_at: datetime
    revision: int
    running_run_id: Id | None = None
    asked_by: Id | None = None


class ConversationsAnswer(Answer):
    """Newest activity first."""

    items: list[ConversationAnswer]


class AttachmentAnswer(Answer):
    path: str
    bytes: int
    digest: str
    truncated: bool


class TurnErrorAnswer(Answer):
    code: Code
    stage: str
    elapsed_ms: int
    message: str


class TurnAnswer(Answer):
    turn_id: Id
    run_id: Id
    state: TurnState
    user_text: str
    attachments: list[AttachmentAnswer]
    assistant_text: str | None = None
    reason: str | None = None
    error: TurnErrorAnswer | None = None
    usage: Usage | None = None
    created_at: datetime
    finished_at: datetime | None = None


class PagePosition(Answer):
    next_before_cursor: str | None = None


class PageAnswer(Answer):
    """At most 32 Turns, newest last."""

    conversation: ConversationAnswer
    turns: list[TurnAnswer]
    page: PagePosition


class PreparationAnswer(Answer):
    nulls = True
    state: Literal["idle", "preparing", "cancelling", "running"]
    operation_id: Id | None


class OutcomeAnswer(Answer):
    """`accepted`: the request to stop is taken, not: it has stopped. `stale`: there was nothing left to stop under this id."""

    outcome: Literal["accepted", "stale"]


class AcceptedAnswer(Answer):
    turn_id: Id
    run_id: Id
    operation_id: Id


class EventsAnswer(Answer):
    """Durable events in order. `next_after_seq`: where the next page begins, absent on the last one."""

    items: list[Event]
    next_after_seq: int | None = None

    def to_json(self) -> str:
        more = "" if self.next_after_seq is None else f',"next_after_seq":{self.next_after_seq}'
        return f'{{"items":[{",".join(event.to_json() for event in self.items)}]{more}}}'


class PermissionAnswer(Answer):
    permission_id: Id
    run_id: Id
    call_id: str
    tool_id: str
    arguments_digest: str
    preview: str
    truncated: bool
    diff: str | None = None
    expires_at: datetime
    state: PermissionState
    decided_at: datetime | None = None


class PermissionsAnswer(Answer):
    items: list[PermissionAnswer]


class TaskAnswer(Answer):
    """`code`: a stable word for what was out of the ordinary, `exit_code` when the command found faults. `result`: only of a Task
    that is read by itself."""

    task_id: Id
    run_id: Id
    conversation_id: Id
    kind: Literal["runtime-compile", "delegate"]
    state: Literal["queued", "running", "completed", "failed", "cancelled", "interrupted"]
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    code: str | None = None
    result: str | None = None


class TasksAnswer(Answer):
    """Newest first."""

    items: list[TaskAnswer]


class NotificationAnswer(Answer):
    """`position` counts from 1. `kind`: the state that it tells of, or another fact about the Task."""

    position: int
    created_at: datetime
    kind: str
    text: str


class NotificationsAnswer(Answer):
    items: list[NotificationAnswer]


class WorkspaceEntryAnswer(Answer):
    """`reason`: why the file cannot be attached; `reason_code`: the same in one stable word."""

    path: str
    bytes: int
    attachable: bool
    reason: str | None = None
    reason_code: str | None = None


class WorkspaceAnswer(Answer):
    items: list[WorkspaceEntryAnswer]
    truncated: bool


class SkillAnswer(Answer):
    """One installed version. `bytes` and `entries`: of its files. `scripts`: what it can run."""

    skill_id: Id
    name: str
    version: str
    description: str
    active: bool
    bytes: int
    entries: int
    scripts: list[str]
    created_at: datetime


class SkillsAnswer(Answer):
    """By name, the newest version first."""

    items: list[SkillAnswer]


class SlashCommandAnswer(Answer):
    """`arguments`: a JSON Schema of the words behind the name."""

    name: str
    aliases: list[str]
    help: str
    arguments: dict[str, object]


class SlashCommandsAnswer(Answer):
    items: list[SlashCommandAnswer]


class NextTurnParameter(Answer):
    """What the page sends with the next ordinary Turn; nothing is kept on the server."""

    model_id: str | None = None
    compact: bool | None = None


class SaidAnswer(Answer):
    """One line of a command's output: its code and what fills it in, for a page with words of its own."""

    code: str
    values: dict[str, str | int]


class CommandAnswer(Answer):
    """`lines`: the output once more, line by line."""

    output: str
    lines: list[SaidAnswer] = []
    parameter: NextTurnParameter | None = None
    model_invoked: Literal[False] = False
    turn_created: Literal[False] = False


class LetterAnswer(Answer):
    direction: Literal["to_child", "to_parent"]
    text: str
    created_at: datetime


class ChildAnswer(Answer):
    """`agent_name`: as it is now, or as it was when it was asked. `run_id`: absent where no Run has begun. `deleted`: the Agent is gone."""

    agent_id: Id
    agent_name: str
    conversation_id: Id
    run_id: Id | None = None
    deleted: bool


class SubagentAnswer(Answer):
    """One delegation. `task_id`: its Task. `run_id`: the Run that asked. `code`: an error code of the child Run, or `wall_clock`.
    `mailbox`: the message, and the answer of a completed one."""

    task_id: Id
    run_id: Id
    state: Literal["queued", "running", "completed", "failed", "cancelled", "interrupted"]
    code: str | None = None
    child: ChildAnswer
    mailbox: list[LetterAnswer]
    created_at: datetime
    finished_at: datetime | None = None


class SubagentsAnswer(Answer):
    """The newest delegations of a Conversation, oldest first."""

    items: list[SubagentAnswer]
