"""Admission: one function from a submitted Turn to the proof that it may run."""

import asyncio
from dataclasses import replace
from pathlib import Path

from agent_builder.context.compiler import compile_plan, render_call
from agent_builder.context.inputs import PlanInputs
from agent_builder.context.plan import ContextPlan
from agent_builder.conversations.planning import (
    COMPACTED_THROUGH,
    SCOPE,
    AskSurroundings,
    Planning,
    View,
    offered_tools,
)
from agent_builder.conversations.plans_kept import PlansKept
from agent_builder.conversations.run_port import RunPort
from agent_builder.conversations.summarising import Summarising
from agent_builder.llm.broker import ModelBroker
from agent_builder.llm.models import Models
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.errors import ModelContextTooSlow
from agent_builder.protocol.events import AttachedFile, RunStarted
from agent_builder.protocol.limits import TOKENIZER_INLINE_BYTES, TURNS_PER_PAGE
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import TokenCounter
from agent_builder.runs.admitted import AdmittedTurn
from agent_builder.storage.boundaries import Boundary
from agent_builder.storage.database import Database
from agent_builder.storage.turn_rows import TurnRow


class Admission:
    """One per Agent. Keeps the plans of recent Runs for inspection."""

    def __init__(
        self, *, database: Database, models: Models, broker: ModelBroker, workspace: Path, worker_env: Path, clock: Clock,
        semantic_summary: bool, surroundings: AskSurroundings,
    ) -> None:
        self.planning = Planning(
            database=database, models=models, workspace=workspace, worker_env=worker_env, clock=clock, surroundings=surroundings
        )
        self.plans = PlansKept()
        self._prefill = models.prefill
        self._clock = clock
        self._summarising = Summarising(database, broker, models.prefill, clock) if semantic_summary else None

    async def admit(self, run: RunPort) -> AdmittedTurn:
        """Writes nothing of the Turn: who called commits `started` and `boundary`. Raises RunError leaves (the context ones
        with their numbers), InstructionsRefused, NotFound."""
        turn = run.turn
        model, base_counter = await self.planning.model(turn.model_id)
        around = await self.planning.surroundings(turn.conversation_id)
        toolset = offered_tools(model, around)
        view = await self.planning.view(turn.conversation_id, model, base_counter, toolset)
        counter = view.counter
        inputs = await self.planning.inputs(view, model, toolset, around, turn.user_text, turn.attachments, compact=turn.compact)
        plan = compile_plan(inputs, counter) if _is_short(inputs) else await asyncio.to_thread(compile_plan, inputs, counter)
        plan = await self._with_summary(plan, inputs, counter, run)
        self._refuse_slow(plan, model, counter, run.deadline)
        self.plans.keep(run.identity.run_id, plan)
        return AdmittedTurn(
            identity=run.identity, turn=turn, model=model, counter=counter, plan=plan, toolset=toolset, started=_started(plan, turn),
            boundary=_boundary(turn, view, plan, inputs), preface=plan.preface, scope=view.scope,
        )

    async def _with_summary(self, plan: ContextPlan, inputs: PlanInputs, counter: TokenCounter, run: RunPort) -> ContextPlan:
        """The plan with better notes where Turns have left and a summary of them is there or can be made in time."""
        if plan.start == 0 or self._summarising is None:
            return plan
        summary = await self._summarising.summary(inputs, plan.start, counter, run)
        return plan if summary is None else await asyncio.to_thread(compile_plan, replace(inputs, summary=summary), counter)

    def _refuse_slow(self, plan: ContextPlan, model: QualifiedModel, counter: TokenCounter, deadline: float) -> None:
        estimate = self._prefill.estimate(model, render_call(plan, (), with_tools=True, finalize=False, counter=counter))
        left = max(0.0, deadline - self._clock.monotonic())
        if estimate.expected_s is not None and estimate.expected_s > left:
            raise ModelContextTooSlow(
                f"The model would need about {estimate.expected_s:.0f} s to evaluate {estimate.uncached} tokens; {left:.0f} s are "
                "left. Compact the Conversation, raise run_s of the model, or give it a smaller window.",
                expected_s=round(estimate.expected_s), left_s=round(left), tokens=estimate.uncached,
            )


def _is_short(inputs: PlanInputs) -> bool:
    """Whether compiling takes less than waking a thread for it."""
    turns = inputs.history
    if len(turns) > TURNS_PER_PAGE or any(turn.exchanges for turn in turns):
        return False
    texts = [inputs.user_text, inputs.git_status or "", *(one.text for one in inputs.attachments)]
    told = sum(len(turn.user_text) + len(turn.preface) + len(turn.answer) for turn in turns)
    return told + sum(map(len, texts)) <= TOKENIZER_INLINE_BYTES


def _started(plan: ContextPlan, turn: TurnRow) -> RunStarted:
    attached = [AttachedFile(path=one.path, bytes=one.bytes, digest=one.digest, truncated=one.truncated) for one in turn.attachments]
    return RunStarted(
        plan_id=plan.plan_id, plan_digest=plan.digest, toolset_digest=plan.toolset.digest, sections=len(plan.sections),
        model_id=plan.model_id, model_calls=plan.budgets.model_calls, tool_calls=plan.budgets.tool_calls, run_s=plan.budgets.run_s,
        window=plan.window, input_budget=plan.input_budget, admission_tokens=plan.admission.tokens,
        history_included=plan.history.included, history_omitted=plan.history.omitted, history_collapsed=plan.history.collapsed, attachments=attached or None,
    )


def _boundary(turn: TurnRow, view: View, plan: ContextPlan, inputs: PlanInputs) -> Boundary:
    """Digests of what this Turn's view binds, and where the operator's last compaction reached."""
    previous = view.head
    through = "" if previous is None else previous.fields.get(COMPACTED_THROUGH, "")
    if inputs.compact and plan.start:
        through = inputs.history[plan.start - 1].turn_id
    fields = {
        "revision": str(view.conversation.revision), "model": plan.model_id, "model_digest": plan.model_digest, "plan": plan.digest,
        "instructions": plan.instructions_digest, "history": plan.history_digest, "toolset": plan.toolset.digest,
        "renderer": plan.renderer, SCOPE: view.scope, COMPACTED_THROUGH: through,
    }
    before = None if previous is None else previous.digest
    return Boundary(
        conversation_id=turn.conversation_id, turn_id=turn.turn_id, digest=digest_of([turn.conversation_id, turn.turn_id, before, fields]),
        previous_digest=before, fields=fields,
    )
