"""Subagents: one Agent's Run asks another Agent once, and the child Run that answers.

    refuse? -> Task and message (parent's database) -> child Conversation and Run (the other Agent's) -> wait -> answer -> Task's end

A delegation is a durable Task. Whatever ends it, the child Run has reached its one terminal and left nothing behind before the Task
ends: an answer, a fault, the time that is up, the end of the parent Run. A restart interrupts the Task, and the other Agent's own
recovery its Turn.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agent_builder.context.inputs import NOTHING_AROUND, Surroundings
from agent_builder.conversations.engine import Submission
from agent_builder.conversations.engines import Child, QueryEngines
from agent_builder.conversations.titles import title_from
from agent_builder.protocol.delegation import ChildEnd, ChildState, Delegation, DelegationRefused, OtherAgent
from agent_builder.protocol.errors import AgentBuilderError, Internal, NotFound, RequestError, StorageFull
from agent_builder.protocol.events import RunIdentity
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.limits import ACTIVE_RUNS, DELEGATE_ANSWER_BYTES, DELEGATIONS, TERMINAL_RETRY_S
from agent_builder.protocol.ports import Clock, EngineFor
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.runs.active import ActiveRuns
from agent_builder.runs.run import Run
from agent_builder.runs.workers import Spawn
from agent_builder.storage.database import Database
from agent_builder.storage.delegations import (
    DelegationRow,
    NewDelegation,
    Place,
    begin_delegation,
    children_of,
    delegations_of,
    finish_delegation,
    is_child,
    note_child_run,
)
from agent_builder.storage.tasks import TaskEnd
from agent_builder.tasks.active import ActiveTask, ActiveTasks
from agent_builder.tools.cuts import clip
from agent_builder.tools.delegate import DELEGATE, other_agent_lines

_log = logging.getLogger(__name__)
_STATES: dict[str, ChildState] = {"completed": "completed", "failed": "failed", "cancelled": "cancelled"}


@dataclass(slots=True)
class _Going:
    """A delegation that has a place. `run`: the child Run once it has begun."""

    asking: RunIdentity
    child: Place
    run: Run | None = None
    stopped: bool = False

    def stop(self) -> bool:
        """Asks for the end of the child Run; the parent Run goes on without an answer."""
        self.stopped = True
        return self.run is None or self.run.cancel()


@dataclass(slots=True)
class Delegations:
    """What all Agents share. `agents`: those that are active now. `start_task`: begins what outlives a Run. `going`: by Task, at most
    DELEGATIONS."""

    agents: Callable[[], Sequence[OtherAgent]]
    engine_for: EngineFor[QueryEngines]
    active: ActiveRuns
    clock: Clock
    start_task: Spawn
    going: dict[str, _Going] = field(default_factory=dict)

    async def delete_children(self, children: Sequence[Place]) -> None:
        """Ends what runs in these Conversations and removes them. What cannot be reached now goes at the next start."""
        for child in children:
            try:
                await self._delete(child)
            except NotFound:
                continue
            except RequestError as error:
                _log.warning("a child Conversation of Agent %s stays until the next start: %s", child.agent_id, error.message)

    async def _delete(self, child: Place) -> None:
        engines = await self.engine_for(child.agent_id)
        while (run := self.active.of_conversation(child.conversation_id)) is not None:
            run.cancel()
            await self.active.ended(run.identity.run_id)
        await engines.delete(child.conversation_id)


class Subagents:
    """One per Agent; the port AskChild of its Runs."""

    def __init__(self, agent_id: str, database: Database, tasks: ActiveTasks, shared: Delegations) -> None:
        self._agent_id = agent_id
        self._database = database
        self._tasks = tasks
        self._shared = shared
        self._asked: set[str] = set()  # active Runs of this Agent that have delegated

    def others(self) -> list[OtherAgent]:
        """The active Agents that may be asked."""
        return [one for one in self._shared.agents() if one.agent_id != self._agent_id]

    async def around(self, conversation_id: str | None) -> Surroundings:
        """The Tool and whom it can name, where there is another Agent. A child Conversation goes no deeper; None: a new one."""
        others = self.others()
        if not others or (conversation_id is not None and await self._database.read(lambda conn: is_child(conn, conversation_id))):
            return NOTHING_AROUND
        return Surroundings(frozenset({DELEGATE}), other_agent_lines(others))

    async def chain(self, conversation_id: str) -> list[DelegationRow]:
        """Raises NotFound."""
        return await self._database.read(lambda conn: delegations_of(conn, conversation_id))

    async def children(self, conversation_id: str) -> list[Place]:
        """Raises NotFound."""
        return await self._database.read(lambda conn: children_of(conn, conversation_id))

    async def delete_children(self, children: Sequence[Place]) -> None:
        await self._shared.delete_children(children)

    # the port ------------------------------------------------------------------------------------------------

    def target(self, agent_id: str) -> OtherAgent:
        """Raises DelegationRefused."""
        if agent_id == self._agent_id:
            raise DelegationRefused("own_agent", f"this is your own id; {_known(self.others())}")
        found = next((one for one in self.others() if one.agent_id == agent_id), None)
        if found is None:
            raise DelegationRefused("no_such_agent", f"no active Agent has this id; {_known(self.others())}")
        return found

    def require_room(self, asking: RunIdentity) -> None:
        """Raises DelegationRefused."""
        going = [*self._shared.going.values()]
        if any(one.child.conversation_id == asking.conversation_id for one in going):
            raise DelegationRefused("depth", "you were asked by another Agent yourself and cannot ask a third one")
        if asking.run_id in self._asked:
            raise DelegationRefused("already_asked", "another Agent was asked in this Turn already; go on without it")
        if len(going) >= DELEGATIONS:
            raise DelegationRefused("delegation_limit", f"{DELEGATIONS} delegations are going on already; go on without one")
        if self._shared.active.count >= ACTIVE_RUNS:
            raise DelegationRefused("run_limit", f"{ACTIVE_RUNS} Runs are active, and another Agent would need one more; go on without it")

    async def __call__(self, delegation: Delegation) -> ChildEnd:
        """Raises DelegationRefused where nothing was begun."""
        self.require_room(delegation.asking)
        task_id, child = new_id(), Place(delegation.target.agent_id, new_id())
        with self._place(task_id, delegation.asking, child) as going:
            try:
                _, cancelled = await to_the_end(self._begin(task_id, delegation, child))
            except RequestError as error:
                self._asked.discard(delegation.asking.run_id)
                raise DelegationRefused(error.code, error.message) from error
            return await self._to_its_end(ChildEnd("failed", task_id, child.conversation_id, code=Internal.code), delegation, going, cancelled)

    # steps ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _place(self, task_id: str, asking: RunIdentity, child: Place) -> Iterator[_Going]:
        active = self._shared.active
        self._asked = {run_id for run_id in self._asked if active.get(run_id) is not None} | {asking.run_id}
        going = self._shared.going[task_id] = _Going(asking, child)
        task = ActiveTask(task_id, asking.conversation_id, going.stop)
        self._tasks.add(task)
        try:
            yield going
        finally:
            del self._shared.going[task_id]
            self._tasks.remove(task)

    async def _begin(self, task_id: str, delegation: Delegation, child: Place) -> None:
        new = NewDelegation(
            task_id, delegation.asking.run_id, child, delegation.target.name, delegation.message, self._shared.clock.now()
        )
        await self._database.run(lambda conn: begin_delegation(conn, new))

    async def _to_its_end(self, end: ChildEnd, delegation: Delegation, going: _Going, cancelled: bool) -> ChildEnd:
        """From here on the Task gets its end in every case, behind the child Run's."""
        try:
            if cancelled:
                raise asyncio.CancelledError
            end = await self._ask(end, delegation, going)
        except asyncio.CancelledError:
            end = replace(end, state="cancelled", code=None)
            raise
        finally:
            await to_the_end(self._finish(end))
        return end

    async def _ask(self, end: ChildEnd, delegation: Delegation, going: _Going) -> ChildEnd:
        try:
            run, cancelled = await to_the_end(self._start(end.task_id, delegation, going))
        except AgentBuilderError as error:
            return replace(end, code=error.code, sentence=error.message)
        if cancelled or going.stopped:
            run.cancel()
        late = False
        try:
            async with self._shared.clock.timeout(delegation.wall_s):
                await self._shared.active.ended(run.identity.run_id)
        except TimeoutError:
            late = True
        finally:
            await to_the_end(self._end_run(run))
        if cancelled:
            raise asyncio.CancelledError
        return _child_end(replace(end, run_id=run.identity.run_id), run, delegation.wall_s if late else None)

    async def _start(self, task_id: str, delegation: Delegation, going: _Going) -> Run:
        """The child Conversation and its Run; neither where one of them cannot be. Raises RequestError leaves."""
        asking, child = delegation.asking, going.child
        parent = Place(asking.agent_id, asking.conversation_id)
        engines = await self._shared.engine_for(child.agent_id)
        await engines.create_child(title_from(delegation.message), Child(child.conversation_id, task_id, parent))
        try:
            engine = await engines.get(child.conversation_id)
            accepted = await engine.submit(Submission(delegation.message, model_id=delegation.model_id))
        except RequestError:
            await engines.delete(child.conversation_id)
            raise
        run = going.run = self._shared.active.get(accepted.run_id)
        assert run is not None
        try:
            await self._database.run(lambda conn: note_child_run(conn, task_id, accepted.run_id))
        except BaseException:
            await self._end_run(run)
            raise
        return run

    async def _end_run(self, run: Run) -> None:
        run.cancel()
        await self._shared.active.ended(run.identity.run_id)

    async def _finish(self, end: ChildEnd) -> None:
        """The answer is kept as the model that asked may see it. On a full disk the parent Run goes on, and the end is stored later."""
        task = TaskEnd(end.task_id, end.state, end.code, None, self._shared.clock.now())
        answer = None if end.answer is None else clip(end.answer, DELEGATE_ANSWER_BYTES)
        try:
            await self._store_end(task, answer)
        except StorageFull:
            self._shared.start_task(self._store_end_later(task, answer))

    async def _store_end(self, task: TaskEnd, answer: str | None) -> None:
        await self._database.run(lambda conn: finish_delegation(conn, task, answer), terminal=True)

    async def _store_end_later(self, task: TaskEnd, answer: str | None) -> None:
        while True:
            await self._shared.clock.sleep(TERMINAL_RETRY_S)
            try:
                await self._store_end(task, answer)
            except StorageFull:
                continue
            except RequestError as error:  # its Conversation or Agent has gone, or the Gateway stops: then it will be interrupted
                _log.info("the end of Task %s is not stored: %s", task.task_id, error.message)
            return


def _child_end(end: ChildEnd, run: Run, late_s: float | None) -> ChildEnd:
    """What became of the child Run; `late_s`: it was stopped after so many seconds. An answer that came all the same counts."""
    turn, end = run.end, replace(end, code=None)
    if turn is None:
        return replace(end, state="interrupted")
    if turn.state == "completed":
        return replace(end, state="completed", answer=turn.assistant_text, reason=turn.reason)
    if late_s is not None:
        return replace(end, state="failed", code="wall_clock", sentence=f"It was stopped after {late_s:g} seconds.")
    code, sentence = (None, "") if turn.error is None else (turn.error.code, turn.error.message)
    return replace(end, state=_STATES.get(turn.state, "interrupted"), code=code, sentence=sentence)


def _known(others: Sequence[OtherAgent]) -> str:
    return f"the other Agents are: {'; '.join(other_agent_lines(others))}" if others else "there is no other Agent"
