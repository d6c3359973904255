"""From stored rows to the objects that clients see."""

from typing import cast

from agent_builder.agents.registry import AgentView
from agent_builder.conversations.pages import Page
from agent_builder.gateway.answers import (
    AgentAnswer,
    AttachmentAnswer,
    ConversationAnswer,
    ModelAnswer,
    PageAnswer,
    PagePosition,
    PermissionAnswer,
    PermissionState,
    SkillAnswer,
    TurnAnswer,
    TurnErrorAnswer,
    TurnState,
)
from agent_builder.llm.entries import PublicModel
from agent_builder.storage.conversations import ConversationRow
from agent_builder.storage.skills import SkillRow
from agent_builder.storage.turns import TurnError, TurnRow
from agent_builder.tools.permissions import PermissionView


def agent_answer(agent: AgentView) -> AgentAnswer:
    return AgentAnswer(
        agent_id=agent.agent_id, name=agent.name, system=agent.system, generation=agent.generation, phase=agent.phase,
        running=agent.running, created_at=agent.created_at, waiting=agent.waiting,
    )


def model_answer(model: PublicModel) -> ModelAnswer:
    return ModelAnswer(
        model_id=model.model_id, label=model.label, capabilities=list(model.capabilities), window=model.window,
        output_cap=model.output_cap, available=model.available, reason=model.reason, default=model.default,
        estimator=model.estimator, estimator_reason=model.estimator_reason, reason_code=model.reason_code,
    )


def conversation_answer(row: ConversationRow) -> ConversationAnswer:
    return ConversationAnswer(
        conversation_id=row.conversation_id, title=row.title, created_at=row.created_at, updated_at=row.updated_at,
        revision=row.revision, running_run_id=row.running_run_id, asked_by=row.asked_by,
    )


def turn_answer(row: TurnRow) -> TurnAnswer:
    """The text of attachments stays inside: the message is shown as typed."""
    attachments = [
        AttachmentAnswer(path=one.path, bytes=one.bytes, digest=one.digest, truncated=one.truncated) for one in row.attachments
    ]
    return TurnAnswer(
        turn_id=row.turn_id, run_id=row.run_id, state=cast(TurnState, row.state), user_text=row.user_text, attachments=attachments,
        assistant_text=row.assistant_text, reason=row.reason, error=_error_answer(row.error), usage=row.usage,
        created_at=row.created_at, finished_at=row.finished_at,
    )


def page_answer(page: Page) -> PageAnswer:
    return PageAnswer(
        conversation=conversation_answer(page.conversation), turns=[turn_answer(row) for row in page.turns],
        page=PagePosition(next_before_cursor=page.next_before_cursor),
    )


def permission_answer(view: PermissionView) -> PermissionAnswer:
    return PermissionAnswer(
        permission_id=view.permission_id, run_id=view.run_id, call_id=view.call_id, tool_id=view.tool_id,
        arguments_digest=view.arguments_digest, preview=view.preview, truncated=view.truncated, diff=view.diff,
        expires_at=view.expires_at, state=cast(PermissionState, view.state), decided_at=view.decided_at,
    )


def skill_answer(row: SkillRow) -> SkillAnswer:
    return SkillAnswer(
        skill_id=row.skill_id, name=row.name, version=row.version, description=row.description, active=row.active, bytes=row.bytes,
        entries=row.entries, scripts=list(row.scripts), created_at=row.created_at,
    )


def _error_answer(error: TurnError | None) -> TurnErrorAnswer | None:
    if error is None:
        return None
    return TurnErrorAnswer(code=error.code, stage=error.stage, elapsed_ms=error.elapsed_ms, message=error.message)
