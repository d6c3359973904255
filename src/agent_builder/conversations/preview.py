"""What the operator may send next in a Conversation, or why that cannot be said."""

import asyncio
from dataclasses import asdict
from typing import Literal

from agent_builder.context.inputs import NOTHING_AROUND, Surroundings
from agent_builder.context.plan import NextTurnProjection
from agent_builder.context.projection import Evidence, Reason, hindrance, project_next_turn
from agent_builder.context.toolset import EffectiveToolSet
from agent_builder.conversations.admission import Admission
from agent_builder.conversations.planning import SCOPE, View, no_tools, offered_tools
from agent_builder.llm.models import Models
from agent_builder.protocol.errors import InstructionsRefused, ModelContextLimit, RunError
from agent_builder.protocol.messages import Record
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.request import TokenCounter
from agent_builder.storage.database import Database
from agent_builder.storage.turns import last_reason


class Projection(Record):
    """See NextTurnProjection. `label`: what the numbers are about."""

    label: Literal["conservative tools", "chat-only baseline"]
    fixed_context_tokens: int
    operational_context_tokens: int
    input_budget: int
    used_tokens: int
    usable_tokens: int
    left_percent: int
    safe_user_tokens: int
    safe_user_bytes: int
    compact_before_user_tokens: int
    error_tokens: int
    counted_by: Literal["soft_estimate", "upper_bound"]
    estimator: str
    samples: int
    tools: bool


class ContextPreview(Record):
    """`projection` only in state available; `reason` otherwise. `chat_only_projection`: for a message without tools, where
    only such messages have been observed often enough."""

    state: Literal["available", "unavailable", "stale"]
    reason: Reason | None = None
    model_id: str
    projection: Projection | None = None
    chat_only_projection: Projection | None = None


class Preview:
    """One per Agent."""

    def __init__(self, database: Database, models: Models, admission: Admission) -> None:
        self._database = database
        self._models = models
        self._planning = admission.planning

    async def of(self, conversation_id: str, model_id: str | None = None) -> ContextPreview:
        """For the model that a message would use: the given one, else the default. Raises NotFound."""
        truncated = await self._database.read(lambda conn: last_reason(conn, conversation_id)) == "repetition_truncated"
        wanted = model_id or self._models.default_id
        try:
            model, counter = await self._planning.model(wanted)
        except RunError:
            return ContextPreview(state="unavailable", reason="model_unavailable", model_id=wanted)
        return await self._preview(conversation_id, model, counter, truncated)

    async def _preview(self, conversation_id: str, model: QualifiedModel, counter: TokenCounter, truncated: bool) -> ContextPreview:
        around = await self._planning.surroundings(conversation_id)
        tools = offered_tools(model, around)
        view = await self._planning.view(conversation_id, model, counter, tools)
        hindered = hindrance(_evidence(view, truncated))
        try:
            if hindered is None:
                projection = await self._projection(view, model, tools, around)
                return ContextPreview(state="available", model_id=model.model_id, projection=projection)
            chat_only = await self._chat_only(conversation_id, model, counter, tools, truncated)
        except (InstructionsRefused, ModelContextLimit) as refused:
            reason: Reason = "instructions_refused" if isinstance(refused, InstructionsRefused) else "model_context_limit"
            return ContextPreview(state="unavailable", reason=reason, model_id=model.model_id)
        state, why = hindered
        return ContextPreview(state=state, reason=why, model_id=model.model_id, chat_only_projection=chat_only)

    async def _projection(self, view: View, model: QualifiedModel, toolset: EffectiveToolSet, around: Surroundings) -> Projection:
        inputs = await self._planning.inputs(view, model, toolset, around, "")
        return _shown(await asyncio.to_thread(project_next_turn, inputs, view.counter))

    async def _chat_only(
        self, conversation_id: str, model: QualifiedModel, counter: TokenCounter, tools: EffectiveToolSet, truncated: bool
    ) -> Projection | None:
        if not tools.specs:
            return None
        view = await self._planning.view(conversation_id, model, counter, no_tools())
        if hindrance(_evidence(view, truncated)) is not None:
            return None
        return await self._projection(view, model, no_tools(), NOTHING_AROUND)


def _evidence(view: View, truncated: bool) -> Evidence:
    seen = None if view.head is None else view.head.fields.get(SCOPE)
    return Evidence(
        calibration=view.calibration, active_run=view.conversation.running_run_id is not None, repetition_truncated=truncated,
        other_scope=seen is not None and seen != view.scope,
    )


def _shown(projection: NextTurnProjection) -> Projection:
    return Projection(label="conservative tools" if projection.tools else "chat-only baseline", **asdict(projection))
