"""Whole Runs in this process: real database, workspace, permissions, sequencer and rounds; the model answers as the test says,
and the Worker is whatever the test puts behind `workers`.

    async with run_bench(tmp_path) as bench:
        bench.model.says("hello")
        done = await bench.run(Piped(behave))
        assert done.terminal == "run.completed"
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from agent_builder.context.compiler import compile_plan
from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.context.toolset import EffectiveToolSet, toolset_of
from agent_builder.llm.broker import ModelAnswer, ModelBroker, ModelRequest, ProposedCall
from agent_builder.llm.catalog import Catalog
from agent_builder.llm.models import Models
from agent_builder.llm.usage import CheckedUsage
from agent_builder.protocol.digest import digest_of
from agent_builder.protocol.errors import RunError
from agent_builder.protocol.events import Event, RunIdentity, RunStarted
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.model_profile import Budgets, QualifiedModel
from agent_builder.protocol.ports import Emit
from agent_builder.protocol.request import RenderedRequest, TokenCounter
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.runs.admitted import AdmittedTurn
from agent_builder.runs.live import LiveRuns
from agent_builder.runs.run import Run, RunParts
from agent_builder.runs.worker_process import WorkerProcess
from agent_builder.runs.workers import Workers
from agent_builder.storage.boundaries import Boundary, head_boundary
from agent_builder.storage.conversations import create_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.journal import read_events
from agent_builder.storage.turn_rows import TurnRow
from agent_builder.storage.turns import begin_turn, get_turn_by_run
from agent_builder.tools.broker import CapabilityBroker
from agent_builder.tools.permissions import Permissions
from tests.support.clock import MovableClock
from tests.support.plans import a_model, inputs
from tests.support.stored import AGENT, new_turn, open_state

OFFERED = toolset_of(tuple(spec for spec in CATALOG.specs if spec.offered and not spec.optional))
USAGE = CheckedUsage(input=10, output=2, complete=True, evaluated=None, evaluate_s=None)
TextSink = Callable[[str], Awaitable[None]]


class WorkerSource(Protocol):
    """What `Workers` is to a Run."""

    def worker(self, worker_env: Path, root: Path) -> AbstractAsyncContextManager[WorkerProcess]: ...

    def park(self, worker_env: Path, spares: Path) -> None: ...


def proposed(tool_id: str, **arguments: object) -> ProposedCall:
    return ProposedCall(tool_id, tool_id.replace("/", "_"), arguments, None, False)


class ScriptedModel(ModelBroker):
    """Gives the answers in order, then `ok`. `requests` are what it was asked; `prompt_tokens` says what it reports of one."""

    def __init__(self, clock: MovableClock, cache: Path) -> None:
        profile = a_model().profile
        super().__init__(Models(Catalog(default=profile.model_id, models=(profile,)), clock, cache), clock)
        self.answers: deque[ModelAnswer | RunError] = deque()
        self.requests: list[ModelRequest] = []
        self.prompt_tokens: Callable[[RenderedRequest], int] = lambda rendered: USAGE.input
        self.counts_cached = True

    def says(self, text: str) -> None:
        self.answers.append(ModelAnswer(text, (), "stop", USAGE))

    def calls(self, *calls: ProposedCall, text: str = "") -> None:
        self.answers.append(ModelAnswer(text, calls, "stop", USAGE))

    def fails(self, fault: RunError) -> None:
        self.answers.append(fault)

    async def until_first_load(self, model_id: str | None, emit: Emit) -> None:
        """It is loaded."""

    async def call(self, request: ModelRequest, emit: Emit, on_text: TextSink, on_thinking: TextSink) -> ModelAnswer:
        self.requests.append(request)
        answer = self.answers.popleft() if self.answers else ModelAnswer("ok", (), "stop", USAGE)
        if isinstance(answer, RunError):
            raise answer
        for start in range(0, len(answer.text), 7):
            await on_text(answer.text[start : start + 7])
        return replace(answer, usage=replace(answer.usage, input=self.prompt_tokens(request.rendered)))

    def reports_cached(self, model: QualifiedModel) -> bool:
        return self.counts_cached


@dataclass
class Done:
    """A Run that has ended: its events as they were seen, its Turn as it is stored."""

    run_id: str
    events: list[Event]
    journal: list[Event]
    turn: TurnRow

    @property
    def terminals(self) -> list[str]:
        return [event.type for event in self.events if event.terminal]

    @property
    def terminal(self) -> str:
        (only,) = self.terminals
        return only

    @property
    def code(self) -> object:
        return self.events[-1].payload.get("code")

    def of(self, kind: str) -> list[dict[str, object]]:
        return [event.payload for event in self.events if event.type == kind]

    def __str__(self) -> str:
        return "\n".join(event.to_json() for event in self.events) + str(self.turn)


@dataclass
class RunBench:
    """`decision`: how the operator answers every question; "" leaves it open."""

    database: Database
    directory: Path
    worker_env: Path
    clock: MovableClock
    permissions: Permissions
    conversation_id: str
    model: ScriptedModel
    live: LiveRuns = field(default_factory=LiveRuns)
    qualified: QualifiedModel = field(default_factory=lambda: a_model(32768))
    toolset: EffectiveToolSet = OFFERED
    counter: TokenCounter = BYTES_COUNTER
    decision: str = "deny"

    @property
    def workspace(self) -> Path:
        return self.directory / "workspace"

    @property
    def runs_root(self) -> Path:
        return self.directory / "runs"

    def profile(self, budgets: Budgets | None = None, **changes: Any) -> None:
        old = self.qualified.profile
        self.qualified = replace(self.qualified, profile=replace(old, budgets=budgets or old.budgets, **changes))

    async def run(self, workers: WorkerSource, text: str = "say hi", meanwhile: Callable[[Event, Run], None] | None = None) -> Done:
        """One Turn to its end. `meanwhile` sees each event as it comes."""
        new = new_turn(self.conversation_id, text, now=self.clock.now())
        turn = await self.database.run(lambda conn: begin_turn(conn, new))
        identity = RunIdentity(agent_id=AGENT, conversation_id=self.conversation_id, turn_id=turn.turn_id, run_id=turn.run_id)
        run = Run(self._parts(workers), identity, turn, self.qualified.profile.budgets, self._admit)
        watching = asyncio.create_task(self._watch(run, meanwhile))
        await run.execute()
        events = await watching
        stored = await self.database.read(lambda conn: (read_events(conn, turn.run_id, 0, 10_000), get_turn_by_run(conn, turn.run_id)))
        assert stored[1] is not None
        return Done(turn.run_id, events, stored[0], stored[1])

    def _parts(self, workers: WorkerSource) -> RunParts:
        return RunParts(
            database=self.database, live=self.live, clock=self.clock, models=self.model,
            capabilities=CapabilityBroker(self.permissions, self.clock, self.worker_env), permissions=self.permissions,
            workers=cast(Workers, workers), workspace=self.workspace, worker_env=self.worker_env, runs_root=self.runs_root,
            spares=self.directory / "spare",
        )

    async def _watch(self, run: Run, meanwhile: Callable[[Event, Run], None] | None) -> list[Event]:
        subscription = self.live.subscribe(AGENT, run.identity.run_id, 0)
        assert subscription is not None
        events: list[Event] = []
        while batch := await subscription.batch():
            for event in batch:
                assert isinstance(event, Event)
                events.append(event)
                if event.type == "permission.requested" and self.decision:
                    await self.permissions.decide(str(event.payload["permission_id"]), self.decision)
                if meanwhile is not None:
                    meanwhile(event, run)
        return events

    async def _admit(self, run: Run) -> AdmittedTurn:
        plan = compile_plan(replace(inputs(self.qualified, run.turn.user_text), toolset=self.toolset), self.counter)
        head = await self.database.read(lambda conn: head_boundary(conn, self.conversation_id))
        before = None if head is None else head.digest
        boundary = Boundary(self.conversation_id, run.turn.turn_id, digest_of([run.turn.turn_id, before]), before, {"model": "m"})
        started = RunStarted(
            plan_id=plan.plan_id, plan_digest=plan.digest, toolset_digest=self.toolset.digest, sections=1, model_id="m",
            model_calls=plan.budgets.model_calls, tool_calls=plan.budgets.tool_calls, run_s=plan.budgets.run_s, window=plan.window,
            input_budget=plan.input_budget, admission_tokens=plan.admission.tokens, history_included=0, history_omitted=0,
            history_collapsed=0,
        )
        return AdmittedTurn(
            identity=run.identity, turn=run.turn, model=self.qualified, counter=self.counter, plan=plan, toolset=self.toolset,
            started=started, boundary=boundary, preface=plan.preface, scope="scope",
        )


@asynccontextmanager
async def run_bench(directory: Path, worker_env: Path | None = None) -> AsyncIterator[RunBench]:
    directory = directory.resolve()
    for name in ("workspace", "runs", "spare"):
        (directory / name).mkdir(mode=0o700, exist_ok=True)
    clock, conversation_id = MovableClock(), new_id()
    model = ScriptedModel(clock, directory / "cache")
    database = await open_state(directory)
    await database.run(lambda conn: create_conversation(conn, conversation_id, None, clock.now()))
    try:
        yield RunBench(database, directory, worker_env or directory / "worker-env", clock, Permissions(clock), conversation_id, model)
    finally:
        await model._models.close()
        await database.close()


def start_nothing(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """For `Workers` that keep no spare."""
    raise AssertionError("no spare is wanted")


def real_workers(clock: MovableClock) -> Workers:
    """Confined processes from the bench's own `worker_env`, without a spare."""
    return Workers(clock, start_nothing, keep_spare=False)


def snapshot(directory: Path) -> Sequence[tuple[str, bytes]]:
    """Everything in a directory, for comparison."""
    return sorted((str(path.relative_to(directory)), path.read_bytes()) for path in directory.rglob("*") if path.is_file())
