"""One Agent's admission before a fake Ollama: real database, workspace, models and broker; Turns end as the test says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_builder.context.inputs import NOTHING_AROUND, Surroundings
from agent_builder.context.results import completed_bundle
from agent_builder.conversations.admission import Admission
from agent_builder.llm.broker import ModelBroker
from agent_builder.llm.catalog import Catalog
from agent_builder.llm.models import Models
from agent_builder.protocol.events import Payload, RunIdentity, make_event
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.messages import Attachment, Exchange, Usage
from agent_builder.protocol.model_profile import ModelProfile
from agent_builder.protocol.request import START_OVERHEAD, Units
from agent_builder.runs.admitted import AdmittedTurn
from agent_builder.storage.calibration import Observation, add_observation
from agent_builder.storage.conversations import create_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.journal import append_events
from agent_builder.storage.turn_rows import TurnEnd, TurnRow
from agent_builder.storage.turns import admit_turn, begin_turn, finish_turn
from tests.support.clock import MovableClock
from tests.support.fake_ollama import FakeOllama
from tests.support.stored import AGENT, new_turn, open_state

RUN_S = 240.0


@dataclass
class ARun:
    """What admission sees of a Run. `told`: what it emitted."""

    identity: RunIdentity
    turn: TurnRow
    deadline: float
    told: list[Payload] = field(default_factory=list)

    async def emit(self, *payloads: Payload) -> None:
        self.told.extend(payloads)


@dataclass
class Conversing:
    database: Database
    models: Models
    admission: Admission
    clock: MovableClock
    workspace: Path
    conversation_id: str

    async def begin(self, text: str = "say hi", attachments: tuple[Attachment, ...] = (), **changes: Any) -> ARun:
        changes = {"model_id": None, "attachments": attachments, "now": self.clock.now(), **changes}
        turn = await self.database.run(lambda conn: begin_turn(conn, new_turn(self.conversation_id, text, **changes)))
        identity = RunIdentity(agent_id=AGENT, conversation_id=self.conversation_id, turn_id=turn.turn_id, run_id=turn.run_id)
        return ARun(identity, turn, self.clock.monotonic() + RUN_S)

    async def admit(self, text: str = "say hi", **changes: Any) -> AdmittedTurn:
        return await self.commit(await self.admission.admit(await self.begin(text, **changes)))

    async def commit(self, admitted: AdmittedTurn) -> AdmittedTurn:
        def transaction(conn: Any) -> None:
            admit_turn(conn, admitted.turn.turn_id, admitted.boundary)
            append_events(conn, [make_event(admitted.identity, 1, self.clock.now(), admitted.started)])

        await self.database.run(transaction)
        return admitted

    async def finish(self, admitted: AdmittedTurn, answer: str = "answer", reason: str = "stop", steps: tuple[Exchange, ...] = ()) -> None:
        turn = admitted.turn
        bundle = completed_bundle(turn.turn_id, turn.user_text, admitted.preface, steps, answer, finalized=False)
        end = TurnEnd(turn.turn_id, "completed", answer, reason, None, Usage(), bundle, self.clock.now())
        await self.database.run(lambda conn: finish_turn(conn, end))

    async def fail(self, turn: TurnRow) -> None:
        end = TurnEnd(turn.turn_id, "failed", None, None, None, None, None, self.clock.now())
        await self.database.run(lambda conn: finish_turn(conn, end))

    async def say(self, text: str = "say hi", answer: str = "answer", **changes: Any) -> AdmittedTurn:
        """A whole Turn, answered with `answer`."""
        admitted = await self.admit(text, **changes)
        await self.finish(admitted, answer)
        return admitted

    async def observe(self, scope: str, *pairs: tuple[int, int], exact: bool = False) -> None:
        """Pairs of planned and reported tokens, as long as nothing was learnt of the template."""
        for estimated, observed in pairs:
            text = estimated - START_OVERHEAD.request
            seen = Observation(scope, new_id(), "d", text, 0, Units(), observed, None, None, exact, self.clock.now())
            await self.database.run(lambda conn, seen=seen: add_observation(conn, seen))

    def reading_speed(self, tokens_per_s: float, model_id: str = "test") -> None:
        self.models.prefill.seed_rate(model_id, "utf8-bytes-upper-bound-v1", tokens_per_s)

    def restarted(self, *, semantic_summary: bool = True) -> "Conversing":
        """As after a restart of the Gateway: nothing in memory but what the database holds."""
        return replace(self, admission=an_admission(self.database, self.models, self.workspace, self.clock, semantic_summary))


def an_admission(database: Database, models: Models, workspace: Path, clock: MovableClock, semantic_summary: bool) -> Admission:
    async def surroundings(conversation_id: str | None) -> Surroundings:
        return NOTHING_AROUND

    return Admission(
        database=database, models=models, broker=ModelBroker(models, clock), workspace=workspace, worker_env=workspace / "none",
        clock=clock, semantic_summary=semantic_summary, surroundings=surroundings,
    )


@asynccontextmanager
async def conversing(
    directory: Path, fake: FakeOllama, *more: ModelProfile, semantic_summary: bool = True, **changes: Any
) -> AsyncIterator[Conversing]:
    """`changes` to the default model's profile; `more` profiles behind it."""
    clock = MovableClock()
    profile = replace(ModelProfile("test", "Test", fake.url, fake.model, think=False, estimator="bytes"), **changes)
    models = Models(Catalog(default="test", models=(profile, *more)), clock, directory / "cache")
    workspace = directory / "workspace"
    workspace.mkdir(mode=0o700)
    database = await open_state(directory)
    conversation_id = new_id()
    await database.run(lambda conn: create_conversation(conn, conversation_id, None, clock.now()))
    try:
        yield Conversing(
            database, models, an_admission(database, models, workspace, clock, semantic_summary), clock, workspace, conversation_id
        )
    finally:
        await models.close()
        await database.close()
