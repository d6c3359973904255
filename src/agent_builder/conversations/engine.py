"""QueryEngine: turns the submissions of one Conversation into Turns and Runs.

It holds its identity, a short entry lock and the mark that it is retired; everything else is in the database or in the
active Run. The lock prevents that two submissions both find the Conversation free before either has written its Turn.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent_builder.capsule.instructions import read_instructions
from agent_builder.conversations.titles import title_from
from agent_builder.llm.models import Models
from agent_builder.protocol.errors import AgentBuilderError, ConversationBusy, NotFound
from agent_builder.protocol.events import RunIdentity
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.messages import Attachment
from agent_builder.runs.active import ActiveRuns
from agent_builder.runs.run import Admit, Run, RunParts, RunState
from agent_builder.storage.conversations import get_conversation
from agent_builder.storage.turn_rows import NewTurn, TurnRow
from agent_builder.storage.turns import begin_turn, find_by_request
from agent_builder.tools.attachments import read_attachments

PreparationState = Literal["idle", "preparing", "cancelling", "running"]


@dataclass(frozen=True, slots=True)
class Submission:
    """One message as the operator sent it; `attachments` are workspace paths."""

    message: str
    attachments: tuple[str, ...] = ()
    model_id: str | None = None
    compact: bool = False
    client_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    turn_id: str
    run_id: str
    operation_id: str


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What every engine of one Agent works with."""

    agent_id: str
    run_parts: RunParts
    active: ActiveRuns
    models: Models
    admit: Admit


class QueryEngine:
    def __init__(self, conversation_id: str, parts: EngineParts) -> None:
        self.conversation_id = conversation_id
        self._parts = parts
        self._entry = asyncio.Lock()
        self._retired: type[AgentBuilderError] | None = None

    async def submit(self, submission: Submission) -> Accepted:
        """Accepts a Turn and starts its Run, or gives the Turn that the same client_request_id already made."""
        async with self._entry:
            self._require_open()
            known = await self._earlier(submission)
            return _accepted(known if known is not None else await self._begin(submission))

    def preparation(self) -> tuple[PreparationState, str | None]:
        """State and operation id; `idle` only when nothing of a Run is left."""
        run = self._parts.active.of_conversation(self.conversation_id)
        if run is None or (run.state is RunState.ENDED and not run.was_cancelled()):
            return "idle", None
        state: dict[RunState, PreparationState] = {
            RunState.PREPARING: "preparing", RunState.RUNNING: "running", RunState.CANCELLING: "cancelling", RunState.ENDED: "cancelling",
        }
        return state[run.state], run.turn.operation_id

    def cancel_preparation(self, operation_id: str) -> Literal["accepted", "stale"]:
        run = self._parts.active.of_conversation(self.conversation_id)
        if run is None or run.turn.operation_id != operation_id:
            return "stale"
        return "accepted" if run.cancel() else "stale"

    def retire(self, reason: type[AgentBuilderError] = NotFound) -> None:
        """After the Conversation is deleted, or its Agent is fenced: a handle that is still held raises `reason`."""
        self._retired = reason

    def _require_open(self) -> None:
        if self._retired is not None:
            raise self._retired

    async def _earlier(self, submission: Submission) -> TurnRow | None:
        """The Turn that the same request made, or None where a new one may begin: both from one look at the database. Raises
        NotFound, ConversationBusy, IdempotencyMismatch."""
        request_id = submission.client_request_id

        def look(conn: sqlite3.Connection) -> TurnRow | None:
            known = None if request_id is None else find_by_request(conn, self.conversation_id, request_id, submission.message)
            if known is None and get_conversation(conn, self.conversation_id).running_run_id is not None:
                raise ConversationBusy
            return known

        return await self._parts.run_parts.database.read(look)

    async def _begin(self, submission: Submission) -> TurnRow:
        database, active = self._parts.run_parts.database, self._parts.active
        profile = self._parts.models.profile(submission.model_id)
        run_id = new_id()
        active.reserve(self._parts.agent_id, run_id)
        try:
            self._require_open()
            attachments = await self._read_files(submission.attachments)
            new = NewTurn(
                turn_id=new_id(), run_id=run_id, operation_id=new_id(), conversation_id=self.conversation_id,
                user_text=submission.message, attachments=attachments, model_id=profile.model_id, compact=submission.compact,
                client_request_id=submission.client_request_id, now=self._parts.run_parts.clock.now(),
                title=title_from(submission.message),
            )
            turn = await database.run(lambda conn: begin_turn(conn, new))
        except BaseException:
            active.release(run_id)
            raise
        identity = RunIdentity(
            agent_id=self._parts.agent_id, conversation_id=self.conversation_id, turn_id=turn.turn_id, run_id=run_id
        )
        active.start(Run(self._parts.run_parts, identity, turn, profile.budgets, self._parts.admit))
        return turn

    async def _read_files(self, paths: Sequence[str]) -> tuple[Attachment, ...]:
        """Attachments, after a look at the instruction file: both may refuse the send before a Turn exists."""
        workspace = self._parts.run_parts.workspace

        def read() -> tuple[Attachment, ...]:
            read_instructions(workspace)
            return read_attachments(workspace, paths)

        return await asyncio.to_thread(read) if paths else read()  # one small file is read sooner than a thread is woken


def _accepted(turn: TurnRow) -> Accepted:
    return Accepted(turn_id=turn.turn_id, run_id=turn.run_id, operation_id=turn.operation_id)
