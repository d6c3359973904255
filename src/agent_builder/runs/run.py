"""One Run: admission, a confined Worker, the loop of frames, exactly one terminal, and nothing left behind.

This is one of the four borders that catch errors: whatever goes wrong becomes `run.failed`, so no Run can fell another.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from agent_builder.llm.broker import ModelAnswer, ModelBroker
from agent_builder.protocol.errors import AgentBuilderError, Internal, RunDeadline, WorkerProtocol
from agent_builder.protocol.events import (
    AssistantMessage,
    Control,
    Payload,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunIdentity,
    RunStage,
)
from agent_builder.protocol.frames import Failed, Final, LocalResult, ModelCall, Ready, Start, ToolCall, UserText
from agent_builder.protocol.frames import Reference as Ref
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import (
    DURABLE_BYTES,
    DURABLE_BYTES_PER_EXTRA_CALL,
    IPC_TEXT_BYTES,
    TERMINAL_RETRY_S,
    TOOL_CALLS,
)
from agent_builder.protocol.messages import CompletedTurnContext, Usage
from agent_builder.protocol.model_profile import Budgets
from agent_builder.protocol.ports import Clock
from agent_builder.runs.admitted import AdmittedTurn
from agent_builder.runs.deadline import RunClock
from agent_builder.runs.live import LiveRuns
from agent_builder.runs.local_tools import check_local_result
from agent_builder.runs.model_round import ModelRounds
from agent_builder.runs.race import guarded
from agent_builder.runs.run_tree import watch_tree
from agent_builder.runs.sequencer import Sequencer
from agent_builder.runs.worker_process import WorkerProcess
from agent_builder.runs.workers import Workers
from agent_builder.storage.database import Database
from agent_builder.storage.turn_rows import TurnEnd, TurnError, TurnRow
from agent_builder.storage.turns import admit_turn, finish_turn
from agent_builder.tools.broker import CapabilityBroker
from agent_builder.tools.calls import ToolScope
from agent_builder.tools.permissions import Permissions
from agent_builder.tools.reads import ReadRecord

log = logging.getLogger(__name__)


class RunState(StrEnum):
    """`preparing` and `running` may become `cancelling`; every state ends as `ended`."""

    PREPARING = "preparing"
    RUNNING = "running"
    CANCELLING = "cancelling"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class RunParts:
    """The opened things that every Run of one Agent works with."""

    database: Database
    live: LiveRuns
    clock: Clock
    models: ModelBroker
    capabilities: CapabilityBroker
    permissions: Permissions
    workers: Workers
    workspace: Path
    worker_env: Path
    runs_root: Path
    spares: Path


Admit = Callable[["Run"], Awaitable[AdmittedTurn]]
"""Makes the proof that this Turn may run; given by conversations/admission.py."""


@dataclass(frozen=True, slots=True)
class Completed:
    answer: ModelAnswer
    bundle: CompletedTurnContext


@dataclass(frozen=True, slots=True)
class Cancelled:
    pass


Outcome = Completed | Cancelled | AgentBuilderError


class Run:
    """Made when a Turn is accepted: its event stream is open from then on. `execute` is called once and never raises."""

    def __init__(self, parts: RunParts, identity: RunIdentity, turn: TurnRow, budgets: Budgets, admit: Admit) -> None:
        self.identity = identity
        self.turn = turn
        self.state = RunState.PREPARING
        self.end: TurnEnd | None = None  # once it is written
        self.run_clock = RunClock(parts.clock, budgets)
        self._parts = parts
        self._admit = admit
        self._record = parts.live.open(identity)
        self._sequencer = Sequencer(identity, self._record, parts.database, parts.clock)
        self._sequencer.durable_limit = DURABLE_BYTES + DURABLE_BYTES_PER_EXTRA_CALL * max(0, budgets.tool_calls - TOOL_CALLS)
        self._started = parts.clock.monotonic()
        self._rounds: ModelRounds | None = None
        self._play_task: asyncio.Task[Completed] | None = None
        self._cancel_asked = False

    @property
    def emit(self) -> Callable[..., Awaitable[None]]:
        return self._sequencer.emit

    @property
    def deadline(self) -> float:
        """On the monotonic clock."""
        return self.run_clock.deadline

    def was_cancelled(self) -> bool:
        return self._cancel_asked

    def cancel(self) -> bool:
        """Asks for the end; the terminal event says when it is reached. False when that has come already. Asked again, what ends
        things in order is not disturbed."""
        if self.state is RunState.ENDED:
            return False
        first, self.state, self._cancel_asked = not self._cancel_asked, RunState.CANCELLING, True
        if first and self._play_task is not None:
            self._play_task.cancel()
        return True

    async def execute(self) -> None:
        self._parts.workers.park(self._parts.worker_env, self._parts.spares)
        async with AsyncExitStack() as worker:
            outcome = await self._outcome(worker)
            self._parts.permissions.close_run(self.identity.run_id)
            await self._write_terminal(outcome)
            self.state = RunState.ENDED
        self._parts.workers.park(self._parts.worker_env, self._parts.spares)

    # from start to outcome ---------------------------------------------------------------------------------

    async def _outcome(self, worker: AsyncExitStack) -> Outcome:
        if self.was_cancelled():
            return Cancelled()
        self._play_task = asyncio.create_task(self._play(worker))
        try:
            return await self._play_task
        except asyncio.CancelledError:
            if not self.was_cancelled():
                raise  # the Gateway itself is being torn down: recovery will write the terminal
            return Cancelled()
        except AgentBuilderError as error:
            return error
        except Exception:
            incident = new_id()[:8]
            log.exception("incident %s in a Run", incident)
            return Internal(f"{Internal.sentence} (incident {incident})")

    async def _watch_deadline(self) -> None:
        await self.run_clock.expired()
        raise RunDeadline

    async def _play(self, worker: AsyncExitStack) -> Completed:
        """The Run's clock starts when its model has been loaded for the first time."""
        await self.emit(RunStage(stage="preparing"))
        await self._parts.models.until_first_load(self.turn.model_id, self.emit)
        self.run_clock.restart()
        return await guarded(self._admitted(worker), self._watch_deadline())

    async def _admitted(self, worker: AsyncExitStack) -> Completed:
        turn = await self._admit(self)
        await self._sequencer.commit([turn.started], lambda conn: admit_turn(conn, turn.turn.turn_id, turn.boundary))
        if not self.was_cancelled():
            self.state = RunState.RUNNING
        root = self._parts.runs_root / self.identity.run_id
        process = await worker.enter_async_context(self._parts.workers.worker(self._parts.worker_env, root))
        return await guarded(self._converse(turn, process), watch_tree(root, self._parts.clock), process.crashed(), process.flooded())

    async def _converse(self, turn: AdmittedTurn, worker: WorkerProcess) -> Completed:
        """Asks and answers until the Worker names its final answer."""
        scope = self._scope(turn, worker)
        self._rounds = rounds = ModelRounds(
            turn, self._parts.models, self._sequencer, self._parts.clock, self.run_clock, scope.forget_shown
        )
        await self._start(turn, worker)
        while True:
            match await worker.receive():
                case ModelCall() as frame:
                    await rounds.ask(frame, worker.send)
                case ToolCall() as frame:
                    call = rounds.take(frame)
                    await worker.send(rounds.record(call, await self._parts.capabilities.execute(call, scope)))
                case LocalResult() as frame:
                    call = rounds.take_local(frame)
                    await worker.send(rounds.record(call, await check_local_result(call, frame.content, self.emit)))
                case Final(call=number):
                    answer = rounds.accept(number)
                    return Completed(answer, rounds.bundle(answer))
                case Failed(code=code):
                    raise rounds.failure(code)
                case Ready():
                    raise WorkerProtocol

    async def _start(self, turn: AdmittedTurn, worker: WorkerProcess) -> None:
        budgets, identity = turn.model.profile.budgets, self.identity
        await worker.send(Start(
            agent_id=identity.agent_id, conversation_id=identity.conversation_id, turn_id=identity.turn_id, run_id=identity.run_id,
            tool_ids=[spec.id for spec in turn.toolset.specs], plan=Ref(turn.plan.plan_id, turn.plan.digest),
            toolset=Ref(turn.toolset.toolset_id, turn.toolset.digest), model_calls=budgets.model_calls,
            tool_calls=budgets.tool_calls, several_calls=turn.model.profile.several_calls == "in_order",
        ))
        text, part = turn.turn.user_text, IPC_TEXT_BYTES // 4
        for start in range(0, len(text), part):
            await worker.send(UserText(text[start : start + part], start + part >= len(text)))

    def _scope(self, turn: AdmittedTurn, worker: WorkerProcess) -> ToolScope:
        return ToolScope(
            identity=self.identity, workspace=self._parts.workspace, run_root=worker.home.root, emit=self.emit,
            reads=ReadRecord.from_attachments(turn.turn.attachments), approvals=self.run_clock,
            delegate_s=turn.model.profile.budgets.delegate_s, model_id=turn.model.model_id,
        )

    # the terminal --------------------------------------------------------------------------------------------

    async def _write_terminal(self, outcome: Outcome) -> None:
        elapsed_ms = int((self._parts.clock.monotonic() - self._started) * 1000)
        reason = outcome.code if isinstance(outcome, AgentBuilderError) else "cancelled"
        payloads = [*self._sequencer.open.closed(reason, self._parts.clock.now()), *self._terminal_payloads(outcome, elapsed_ms)]
        end = self._turn_end(outcome, elapsed_ms)

        def also(conn: sqlite3.Connection) -> None:
            finish_turn(conn, end)

        await self._sequencer.commit_terminal(payloads, also, self._storage_is_full)
        self.end = end

    async def _storage_is_full(self) -> None:
        self._record.tell(Control(kind="storage_full", run_id=self.identity.run_id))
        await self._parts.clock.sleep(TERMINAL_RETRY_S)

    def _usage(self) -> Usage:
        used = Usage() if self._rounds is None else self._rounds.usage
        return used.model_copy(update={"complete": False}) if self._sequencer.open.model_call else used

    def _terminal_payloads(self, outcome: Outcome, elapsed_ms: int) -> list[Payload]:
        match outcome:
            case Completed(answer=answer):
                return [
                    AssistantMessage(text=answer.text),
                    RunCompleted(reason=answer.reason, usage=self._usage(), elapsed_ms=elapsed_ms),
                ]
            case Cancelled():
                return [RunCancelled(usage=self._usage(), elapsed_ms=elapsed_ms)]
            case AgentBuilderError() as error:
                return [RunFailed(
                    code=error.code, stage=self._sequencer.stage, retryable=error.retryable, elapsed_ms=elapsed_ms,
                    message=error.message, usage=self._usage(),
                )]

    def _turn_end(self, outcome: Outcome, elapsed_ms: int) -> TurnEnd:
        end = TurnEnd(
            turn_id=self.turn.turn_id, state="cancelled", assistant_text=None, reason=None, error=None, usage=self._usage(),
            bundle=None, now=self._parts.clock.now(),
        )
        match outcome:
            case Completed(answer=answer, bundle=bundle):
                return replace(end, state="completed", assistant_text=answer.text, reason=answer.reason, bundle=bundle)
            case AgentBuilderError() as error:
                fault = TurnError(code=error.code, stage=self._sequencer.stage, elapsed_ms=elapsed_ms, message=error.message)
                return replace(end, state="failed", error=fault)
            case Cancelled():
                return end
