"""ModelBroker: the one way to ask a model. Bounds how many ask at once, how long they wait and how much comes back;
retries once what failed before its first frame; shows where the time goes.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from agent_builder.llm.assembly import Reason, rules_for
from agent_builder.llm.attempt import Attempt, Outlet, Task
from agent_builder.llm.faults import BEFORE_A_FRAME, ProviderOverflow
from agent_builder.llm.models import Models
from agent_builder.llm.prefill import Estimate
from agent_builder.llm.proposals import ProposedCall
from agent_builder.llm.usage import CheckedUsage
from agent_builder.llm.waits import CallWaits
from agent_builder.protocol.errors import (
    ModelBusy,
    ModelFirstFrameTimeout,
    ModelNotFound,
    RunDeadline,
    RunError,
)
from agent_builder.protocol.events import RunStage
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock, Emit
from agent_builder.protocol.request import RenderedRequest
from agent_builder.protocol.toolspec import ToolSpec

ATTEMPTS = 2

Kind = Literal["turn", "summary"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """`offered`: the tools in `rendered`. `quotations`: texts of this Run in which an object like a call is only quoted.
    `deadline`: of the Run, on the monotonic clock. `call`: its number in the Run, for events."""

    model: QualifiedModel
    rendered: RenderedRequest
    call: int
    offered: tuple[ToolSpec, ...]
    quotations: tuple[str, ...]
    correction_available: bool
    deadline: float
    kind: Kind = "turn"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """`text`: exactly what went to `on_text`; for calls written as text, what the model wrote instead."""

    text: str
    calls: tuple[ProposedCall, ...]
    reason: Reason
    usage: CheckedUsage


class ModelBroker:
    """Raises RunError leaves; ProviderOverflow when the provider refused the prompt as too long. A fault after the final
    frame carries the CheckedUsage as `details["usage"]`. Cancelling the awaiting task closes the connection at once."""

    def __init__(self, models: Models, clock: Clock) -> None:
        self._models = models
        self._clock = clock

    async def call(
        self, request: ModelRequest, emit: Emit, on_text: Callable[[str], Awaitable[None]], on_thinking: Callable[[str], Awaitable[None]]
    ) -> ModelAnswer:
        """One model call. Pieces of text and thinking are passed on as they come, in order, and awaited."""
        outlet = Outlet(emit, on_text, on_thinking)
        try:
            async with self._clock.timeout(request.deadline - self._clock.monotonic()):
                return await self._admit(request, outlet)
        except TimeoutError:
            raise RunDeadline from None

    async def until_first_load(self, model_id: str | None, emit: Emit) -> None:
        """Waits in stage loading_model while the default model is loaded for the first time."""
        await self._models.until_first_load(model_id, lambda: emit(RunStage(stage="loading_model")))

    def rate(self, model: QualifiedModel, counter: str) -> float | None:
        """Tokens of this counter that the model reads per second, as far as observed."""
        return self._models.prefill.rate(model.model_id, counter)

    def reports_cached(self, model: QualifiedModel) -> bool:
        """Whether prompt counts of this model's server include what it had cached."""
        return self._models.reports_cached(model.model_id)

    def estimate(self, model: QualifiedModel, rendered: RenderedRequest) -> Estimate:
        """How much of this request the server has probably still to read, and how long that takes."""
        return self._models.prefill.estimate(model, rendered)

    async def _admit(self, request: ModelRequest, outlet: Outlet) -> ModelAnswer:
        model = request.model
        self._models.circuits.check(model.model_id)
        await self._models.wait_until_loaded(model, lambda: outlet.stage("loading_model"))
        queue_s = model.profile.timeouts.queue_s
        async with self._models.streams.stream(model.model_id, model.profile.streams, queue_s, lambda: outlet.stage("model_queue")):
            self._models.circuits.check(model.model_id)
            return await self._attempts(request, outlet)

    async def _attempts(self, request: ModelRequest, outlet: Outlet) -> ModelAnswer:
        task, waits = self._task(request), self._waits(request)
        first: RunError | None = None
        for number in range(1, ATTEMPTS + 1):
            attempt = Attempt(task, number, waits, outlet, self._models, self._clock)
            try:
                assembled, usage = await attempt.run()
                return ModelAnswer(assembled.text, assembled.calls, assembled.reason, usage)
            except RunError as fault:
                await self._note(fault, attempt, request)
                retried = number < ATTEMPTS and isinstance(fault, BEFORE_A_FRAME) and waits.time_is_left()
                if attempt.first_frame or not retried:
                    late = isinstance(fault, ModelFirstFrameTimeout)
                    if late:
                        attempt.left_in_silence()
                    raise (first if first is not None and late and waits.shortened else fault) from None
                first = fault
        raise AssertionError("the last attempt returns or raises")

    async def _note(self, fault: RunError, attempt: Attempt, request: ModelRequest) -> None:
        """What a failed attempt means for the next ones. A summary that fails costs only the summary: its Turn may still ask."""
        if isinstance(fault, ModelNotFound):
            self._models.mark_stale(request.model.model_id)
        if attempt.first_frame:
            return
        waited_for_another = attempt.after_cancelled and isinstance(fault, ModelFirstFrameTimeout)
        if isinstance(fault, BEFORE_A_FRAME) and not waited_for_another and request.kind == "turn":
            self._models.circuits.failed(request.model.model_id)
        await attempt.ended(fault.code)

    def _task(self, request: ModelRequest) -> Task:
        rules = rules_for(
            request.offered, request.quotations, correction_available=request.correction_available,
            text_tool_calls=request.model.profile.text_tool_calls,
        )
        return Task(request.model, request.rendered, rules, call=request.call if request.kind == "turn" else None)

    def _waits(self, request: ModelRequest) -> CallWaits:
        profile = request.model.profile
        cancelled_s = self._models.prefill.cancelled_prompt_s(profile.endpoint)
        return CallWaits(self._clock, profile.timeouts, cancelled_s, with_tools=bool(request.rendered.tools))


__all__ = ["ModelAnswer", "ModelBroker", "ModelBusy", "ModelRequest", "ProposedCall", "ProviderOverflow"]
