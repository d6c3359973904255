"""Everything a plan needs, read once: the Conversation from the database, instructions and git status from the workspace,
the model's counter, what earlier requests taught about sizes. Admission, preview and warm-up plan from the same view.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from agent_builder.capsule.git_status import git_status
from agent_builder.capsule.instructions import read_instructions
from agent_builder.context.compiler import compile_plan
from agent_builder.context.estimate import Calibration, Sample, calibrate, calibration_scope
from agent_builder.context.inputs import NOTHING_AROUND, PlanInputs, Surroundings
from agent_builder.context.toolset import EffectiveToolSet, resolve_toolset, toolset_of
from agent_builder.llm.models import Models
from agent_builder.protocol.errors import ModelContextLimit, ModelUnavailable
from agent_builder.protocol.limits import CALIBRATION_SAMPLES, QUALIFICATION_MESSAGE_BYTES
from agent_builder.protocol.messages import Attachment, CompletedTurnContext
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import TokenCounter
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.storage.boundaries import Boundary, head_boundary
from agent_builder.storage.calibration import get_overhead, get_rate, observations, rate_scope
from agent_builder.storage.conversations import ConversationRow, get_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.turns import bundles

COMPACTED_THROUGH = "compacted_through"
_SENTENCE = "An ordinary message of a few words. "
SCOPE = "scope"
AskSurroundings = Callable[[str | None], Awaitable[Surroundings]]
"""For a Conversation, or for a new one."""


@dataclass(frozen=True, slots=True)
class View:
    """One consistent state of a Conversation. `history`: completed Turns, oldest first. `head`: the newest boundary.
    `counter`: the model's, with what has been learnt about its chat template."""

    conversation: ConversationRow
    history: tuple[CompletedTurnContext, ...]
    head: Boundary | None
    counter: TokenCounter
    calibration: Calibration
    scope: str

    @property
    def compacted(self) -> int:
        """How many of the oldest Turns have left at the operator's word."""
        last = self.head.fields.get(COMPACTED_THROUGH) if self.head is not None else None
        return next((index + 1 for index, bundle in enumerate(self.history) if bundle.turn_id == last), 0) if last else 0


class Planning:
    """One per Agent. `surroundings`: what the Agent has beside its files, as it is when asked."""

    def __init__(
        self, *, database: Database, models: Models, workspace: Path, worker_env: Path, clock: Clock, surroundings: AskSurroundings
    ) -> None:
        self.surroundings = surroundings
        self._database = database
        self._models = models
        self._workspace = workspace
        self._worker_env = worker_env
        self._clock = clock
        self._large_enough: set[tuple[QualifiedModel, str]] = set()

    async def model(self, model_id: str | None) -> tuple[QualifiedModel, TokenCounter]:
        """Raises RunError leaves when the model is not usable; one whose window is too small is taken out of use. At first
        use the reading speed observed before the last restart is taken up."""
        model = await self._models.qualified(model_id)
        counter = await self._models.counter(model)
        if (model, counter.name) not in self._large_enough:
            fault = await asyncio.to_thread(window_fault, model, counter)
            if fault is not None:
                self._models.disable(model.model_id, fault)
                raise ModelUnavailable(fault)
            self._large_enough.add((model, counter.name))
            scope = rate_scope(model.model_id, counter.name)
            rate = await self._database.read(lambda conn: get_rate(conn, scope))
            if rate is not None:
                self._models.prefill.seed_rate(model.model_id, counter.name, rate)
        return model, counter

    async def view(self, conversation_id: str, model: QualifiedModel, counter: TokenCounter, toolset: EffectiveToolSet) -> View:
        """Raises NotFound."""
        scope = calibration_scope(model, toolset, counter)
        return await self._database.read(lambda conn: _view(conn, conversation_id, scope, counter))

    async def inputs(
        self, view: View, model: QualifiedModel, toolset: EffectiveToolSet, around: Surroundings, user_text: str,
        attachments: tuple[Attachment, ...] = (), *, compact: bool = False,
    ) -> PlanInputs:
        """Raises InstructionsRefused."""
        instructions = read_instructions(self._workspace)  # one small file is read sooner than a thread is woken
        return PlanInputs(
            model=model, toolset=toolset, today=self._clock.now().date(), user_text=user_text, history=view.history,
            instructions=None if instructions is None else instructions.text, around=around.lines, attachments=attachments,
            git_status=await git_status(self._workspace, self._worker_env, self._clock), compacted=view.compacted, compact=compact,
            calibration=view.calibration,
        )


def offered_tools(model: QualifiedModel, around: Surroundings = NOTHING_AROUND) -> EffectiveToolSet:
    """What a new Run with this model may use."""
    return resolve_toolset(CATALOG, model, budget=model.profile.budgets.tool_calls, present=around.tools)


def no_tools() -> EffectiveToolSet:
    return toolset_of(())


def _view(conn: sqlite3.Connection, conversation_id: str, scope: str, counter: TokenCounter) -> View:
    overhead = get_overhead(conn, scope) or counter.overhead
    seen = [one for one in observations(conn, scope, CALIBRATION_SAMPLES) if one.exact == counter.exact]
    samples = [Sample(one.text + one.spare + overhead.of(one.units) + overhead.request, one.observed) for one in seen]
    return View(
        conversation=get_conversation(conn, conversation_id), history=tuple(bundles(conn, conversation_id)),
        head=head_boundary(conn, conversation_id), counter=replace(counter, overhead=overhead),
        calibration=calibrate(samples, exact=counter.exact), scope=scope,
    )


def window_fault(model: QualifiedModel, counter: TokenCounter) -> str | None:
    """Why this model cannot be used: a message of QUALIFICATION_MESSAGE_BYTES with the whole toolset does not fit. None
    when it does."""
    message = (_SENTENCE * QUALIFICATION_MESSAGE_BYTES)[:QUALIFICATION_MESSAGE_BYTES]
    inputs = PlanInputs(model=model, toolset=offered_tools(model), today=date.max, user_text=message)
    try:
        compile_plan(inputs, counter)
    except ModelContextLimit as limit:
        return (
            f"a message of {QUALIFICATION_MESSAGE_BYTES} bytes with all tools needs {limit.details['needed']} tokens of "
            f"{limit.details['allowed']} free ones; the window is too small"
        )
    return None
