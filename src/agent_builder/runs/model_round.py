"""What one Run and its model have said to each other: renders each call anew under hard admission, asks the Broker, decides
what the Worker may do with the answer, and keeps the exchanges that the next call and the Turn's bundle are made of.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from agent_builder.context.compiler import drop_oldest, render_call
from agent_builder.context.results import completed_bundle, project_result, result_budget
from agent_builder.llm.broker import ModelAnswer, ModelBroker, ModelRequest, ProposedCall, ProviderOverflow
from agent_builder.llm.usage import CheckedUsage
from agent_builder.protocol.digest import canonical_json
from agent_builder.protocol.errors import ModelContextLimit, ModelToolLoop, RunError, WorkerProtocol
from agent_builder.protocol.events import (
    ModelRecoveryStarted,
    ModelRequestStarted,
    ModelResponseFinished,
)
from agent_builder.protocol.frames import (
    CallProposal,
    HostFrame,
    LocalResult,
    ModelCall,
    ModelDone,
    ModelText,
    ToolCall,
    ToolResult,
)
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import CALL_FRAME_BYTES, IPC_FRAME_BYTES, RECEIPT_BYTES, TOKENIZER_INLINE_BYTES
from agent_builder.protocol.messages import CompletedTurnContext, Exchange, ToolExchange, Usage
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.runs.admitted import AdmittedTurn
from agent_builder.runs.corrections import refused_exchange, remark, unexecuted
from agent_builder.runs.deadline import RunClock
from agent_builder.runs.observe import keep, observation
from agent_builder.runs.pace import PageDeltas, WorkerText
from agent_builder.runs.race import guarded
from agent_builder.runs.sequencer import Sequencer
from agent_builder.storage.calibration import put_rate, rate_scope
from agent_builder.tools.calls import CapabilityCall, CapabilityResult

Send = Callable[[HostFrame], Awaitable[None]]


class Turn(StrEnum):
    """Whose move it is."""

    ASK = "ask"  # the Worker may ask the model
    CALL = "call"  # the Worker must take up the proposed calls, in order
    ANSWERED = "answered"  # the Worker may propose the answer as final


class ModelRounds:
    """One per Run. `forget_shown` takes back what counts as seen by the model: a result was shortened. Raises RunError
    leaves; WorkerProtocol for a move that is not the Worker's."""

    def __init__(
        self, turn: AdmittedTurn, broker: ModelBroker, sequencer: Sequencer, clock: Clock, run_clock: RunClock, forget_shown: Callable[[], None]
    ) -> None:
        self.usage = Usage()
        self.answer: ModelAnswer | None = None
        self._turn = turn
        self._plan = turn.plan
        self._broker = broker
        self._sequencer = sequencer
        self._clock = clock
        self._run_clock = run_clock
        self._forget_shown = forget_shown
        self._budgets = turn.model.profile.budgets
        self._exchanges: list[Exchange] = []
        self._move = Turn.ASK
        self._open: list[CapabilityCall] = []
        self._results: list[ToolExchange] = []
        self._whole_results: dict[str, str] = {}
        self._awaited_ids: list[str] = []
        self._calls_made = self._rounds = self._tools_used = 0
        self._corrected = self._recovered = self._without_tools = self._finishing = False
        self._result_bytes_left = result_budget(self._budgets.tool_calls)

    # the Worker asks the model ------------------------------------------------------------------------------

    async def ask(self, frame: ModelCall, send: Send) -> None:
        """Answers a ModelCall with text frames and one ModelDone."""
        self._require(self._move is Turn.ASK and frame.result_call_ids == self._awaited_ids)
        plan, toolset = self._turn.plan, self._turn.toolset
        self._require(frame.plan == (plan.plan_id, plan.digest) and frame.toolset == (toolset.toolset_id, toolset.digest))
        if self._rounds >= self._budgets.model_calls:
            raise ModelToolLoop
        self._rounds += 1
        self._finishing = self._must_finish()
        answer = await self._answer(send)
        await send(await self._judge(answer))

    async def _answer(self, send: Send) -> ModelAnswer:
        try:
            return await self._call(await self._rendered(), 1, send)
        except ProviderOverflow:
            smaller = None if self._recovered else drop_oldest(self._plan, self._turn.counter)
            if smaller is None:
                raise ModelContextLimit from None
            self._plan, self._recovered = smaller, True
        refused = self._sequencer.open.closed(ModelContextLimit.code, self._clock.now())
        self.usage = self.usage.model_copy(update={"complete": False})
        await self._sequencer.emit(*refused, ModelRecoveryStarted(call=self._calls_made, reason="context_overflow"))
        return await self._call(await self._rendered(), 2, send)

    async def _call(self, rendered: RenderedRequest, attempt: int, send: Send) -> ModelAnswer:
        self._calls_made = number = self._calls_made + 1
        page, worker = PageDeltas(self._sequencer, self._clock), WorkerText(lambda text: send(ModelText(number, text)))

        async def on_text(piece: str) -> None:
            await page.text(piece)
            await worker.text(piece)

        await self._sequencer.emit(ModelRequestStarted(call=number, round=self._rounds, attempt=attempt))
        request = self._request(rendered, number)
        try:
            answer = await guarded(self._broker.call(request, self._sequencer.emit, on_text, page.thinking), page.keep_time())
        except RunError as fault:
            await self._failed(fault)
            raise
        await page.flush()
        await worker.flush()
        await self._finished(answer, rendered)
        return answer

    async def _rendered(self) -> RenderedRequest:
        """Long new results are counted beside the event loop."""
        new = sum(len(call.result.encode()) for exchange in self._exchanges[-1:] for call in exchange.calls)
        return await asyncio.to_thread(self._render) if new > TOKENIZER_INLINE_BYTES else self._render()

    def _render(self) -> RenderedRequest:
        """Where the window has no room for the newest results, they are shortened."""
        while True:
            try:
                return render_call(
                    self._plan, self._exchanges, with_tools=self._offers_tools(), finalize=self._finishing, counter=self._turn.counter
                )
            except ModelContextLimit:
                if not self._shorten_newest():
                    raise

    def _shorten_newest(self) -> bool:
        """Halves the longest result of the newest calls. False when nothing is left to be shortened."""
        calls = list(self._exchanges[-1].calls) if self._exchanges else []
        longest = max(calls, key=lambda call: len(call.result.encode()), default=None)
        if longest is None or len(longest.result.encode()) <= 2 * RECEIPT_BYTES:
            return False
        whole = self._whole_results.get(longest.call_id, longest.result)
        text = project_result(longest.call_id, whole, len(longest.result.encode()) // 2, reason="window_bound")
        calls[calls.index(longest)] = longest.model_copy(update={"result": text})
        self._exchanges[-1] = self._exchanges[-1].model_copy(update={"calls": tuple(calls)})
        self._forget_shown()
        return True

    def _request(self, rendered: RenderedRequest, number: int) -> ModelRequest:
        results = [call.result for exchange in self._exchanges for call in exchange.calls]
        return ModelRequest(
            model=self._turn.model, rendered=rendered, call=number,
            offered=self._turn.toolset.specs if rendered.tools else (),
            quotations=(self._turn.turn.user_text, self._turn.preface, *results),
            correction_available=not self._corrected and not self._finishing,
            deadline=self._run_clock.deadline, kind="turn",
        )

    async def _finished(self, answer: ModelAnswer, rendered: RenderedRequest) -> None:
        """The end of a call, with what was observed of its size in the same transaction."""
        usage = self._spent(answer.usage)
        model, now = self._turn.model, self._clock.now()
        seen = observation(self._turn, rendered, answer, now) if usage.complete else None
        rate, whole = self._broker.rate(model, rendered.counter), self._broker.reports_cached(model)

        def also(conn: sqlite3.Connection) -> None:
            if seen is not None:
                keep(conn, seen, rendered, whole=whole)
            if rate is not None:
                put_rate(conn, rate_scope(model.model_id, rendered.counter), rate, now)

        await self._sequencer.commit([ModelResponseFinished(call=self._calls_made, reason=answer.reason, usage=usage)], also)

    async def _failed(self, fault: RunError) -> None:
        """The end of a call whose answer could not be used, where the provider has told all the same what it took."""
        spent = fault.details.get("usage")
        if isinstance(spent, CheckedUsage) and spent.complete:
            await self._sequencer.emit(ModelResponseFinished(call=self._calls_made, reason=fault.code, usage=self._spent(spent)))

    def _spent(self, told: CheckedUsage) -> Usage:
        """What one call took, added to the Run's."""
        usage, total = Usage(input=told.input, output=told.output, complete=told.complete), self.usage
        self.usage = Usage(input=total.input + usage.input, output=total.output + usage.output, complete=total.complete and usage.complete)
        return usage

    # what the Worker may do with an answer ----------------------------------------------------------------

    async def _judge(self, answer: ModelAnswer) -> ModelDone:
        number = self._calls_made
        if not answer.calls:
            self._move, self.answer = Turn.ANSWERED, answer
            return ModelDone(number, [], False)
        if self._finishing:
            return self._ask_once_more(number)
        if len(answer.calls) > 1 and self._turn.model.profile.several_calls == "refuse":
            raise ModelToolLoop
        if any(call.fault is not None for call in answer.calls):
            return await self._correct(number, answer)
        if len(answer.calls) > self._tools_left() or not _fit_into_a_frame(answer.calls):
            raise ModelToolLoop
        self._open = [_capability_call(call) for call in answer.calls]
        self._exchanges.append(Exchange(text=answer.text if not answer.calls[0].written_as_text else ""))
        self._results, self._awaited_ids, self._move = [], [], Turn.CALL
        return ModelDone(number, [CallProposal(call.call_id, call.tool_id, call.arguments) for call in self._open], False)

    def _ask_once_more(self, number: int) -> ModelDone:
        """A call although the tools are used up: not executed; asked once more with no tools in the request."""
        if self._without_tools or self._turn.model.profile.finalization == "empty_toolset":
            raise ModelToolLoop
        self._without_tools, self._awaited_ids = True, []
        return ModelDone(number, [], True)

    async def _correct(self, number: int, answer: ModelAnswer) -> ModelDone:
        """The one correction of a Run: the model is told what was wrong with its call."""
        if self._corrected:
            raise ModelToolLoop
        self._corrected, self._awaited_ids = True, []
        wrong = next(call for call in answer.calls if call.fault is not None)
        words = remark(wrong, self._turn.toolset.specs)
        if wrong.written_as_text:
            self._exchanges.append(Exchange(text=answer.text, correction=words))
            return ModelDone(number, [], True)
        self._tools_used += 1
        await self._sequencer.emit(*unexecuted(call_id := _new_call_id(), wrong))
        self._exchanges.append(Exchange(text=answer.text, calls=(refused_exchange(call_id, wrong, words),)))
        return ModelDone(number, [], True)

    # the Worker takes up calls ---------------------------------------------------------------------------

    def take(self, frame: ToolCall) -> CapabilityCall:
        """The proposed call that this frame takes up: exactly the next one, unchanged."""
        self._require(self._move is Turn.CALL and bool(self._open))
        call = self._open[0]
        self._require((call.call_id, call.tool_id, call.arguments) == (frame.call_id, frame.tool_id, frame.arguments))
        self._tools_used += 1
        return call

    def take_local(self, frame: LocalResult) -> CapabilityCall:
        """The proposed call whose result the Worker brings itself."""
        self._require(self._move is Turn.CALL and bool(self._open))
        call = self._open[0]
        spec = CATALOG.get(call.tool_id)
        self._require(call.call_id == frame.call_id and spec is not None and spec.local)
        self._tools_used += 1
        return call

    def record(self, call: CapabilityCall, result: CapabilityResult) -> ToolResult:
        """Keeps the result as the model will see it, and gives the Worker its outcome."""
        text = project_result(call.call_id, result.text, self._result_bytes_left)
        if text != result.text:
            self._forget_shown()
        self._whole_results[call.call_id] = result.text
        self._result_bytes_left -= len(text.encode())
        self._open.pop(0)
        self._results.append(ToolExchange(
            call_id=call.call_id, tool_id=call.tool_id, arguments=call.arguments, written_as_text=call.written_as_text,
            outcome=result.outcome, result=text,
        ))
        self._awaited_ids.append(call.call_id)
        if not self._open:
            self._exchanges[-1] = self._exchanges[-1].model_copy(update={"calls": tuple(self._results)})
            self._move = Turn.ASK
        return ToolResult(call.call_id, result.outcome)

    # the end -----------------------------------------------------------------------------------------------

    def accept(self, call: int) -> ModelAnswer:
        """The answer that a Final frame names."""
        self._require(self._move is Turn.ANSWERED and call == self._calls_made and self.answer is not None)
        assert self.answer is not None
        return self.answer

    def failure(self, code: str) -> RunError:
        """The error of a Failed frame. The Worker may only give up, not accuse others."""
        return ModelToolLoop() if code == ModelToolLoop.code else WorkerProtocol()

    def bundle(self, answer: ModelAnswer) -> CompletedTurnContext:
        turn = self._turn.turn
        return completed_bundle(
            turn.turn_id, turn.user_text, self._turn.preface, self._exchanges, answer.text, finalized=self._finishing
        )

    def _tools_left(self) -> int:
        return self._budgets.tool_calls - self._tools_used

    def _must_finish(self) -> bool:
        """Whether this call must be the last one: no tool call could still be followed by an answer."""
        if not self._turn.toolset.specs:
            return False
        return self._tools_left() <= 0 or self._without_tools or self._rounds >= self._budgets.model_calls

    def _offers_tools(self) -> bool:
        if self._without_tools:
            return False
        return not self._finishing or self._turn.model.profile.finalization == "marker_only"

    def _require(self, holds: bool) -> None:
        if not holds:
            raise WorkerProtocol


def _capability_call(call: ProposedCall) -> CapabilityCall:
    assert call.arguments is not None
    return CapabilityCall(call_id=_new_call_id(), tool_id=call.tool_id, arguments=call.arguments, written_as_text=call.written_as_text)


def _fit_into_a_frame(calls: Sequence[ProposedCall]) -> bool:
    """Whether the Worker can be told of all of them at once."""
    size = sum(len(canonical_json(call.arguments)) + CALL_FRAME_BYTES for call in calls)
    return size + CALL_FRAME_BYTES <= IPC_FRAME_BYTES


def _new_call_id() -> str:
    """Provider ids may repeat or be missing, so every call gets one of ours."""
    return f"call_{new_id()[:8]}"
