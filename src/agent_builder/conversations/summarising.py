"""Semantic summaries of the Turns that left a plan: reused from the database, carried on from an earlier one, or asked of
the model. Whatever goes wrong costs only the summary: the plan then has its collapsed lines.
"""

import asyncio

from agent_builder.context.inputs import PlanInputs, Summary
from agent_builder.context.parts import source_digest
from agent_builder.context.summary import KIND, accepted, covers, decoded, summary_request, summary_words
from agent_builder.conversations.run_port import RunPort
from agent_builder.llm.broker import ModelBroker, ModelRequest
from agent_builder.llm.prefill import Prefill
from agent_builder.protocol.errors import RunError
from agent_builder.protocol.limits import SUMMARIES_REFUSED, SUMMARY_EVALUATION_S
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest, TokenCounter
from agent_builder.storage.database import Database
from agent_builder.storage.summaries import SummaryRow, get_summary, latest_summary, put_summary


class Summarising:
    """One per Agent. Remembers which sources gave no summary, so that not every Turn tries again."""

    def __init__(self, database: Database, broker: ModelBroker, prefill: Prefill, clock: Clock) -> None:
        self._database = database
        self._broker = broker
        self._prefill = prefill
        self._clock = clock
        self._refused: dict[str, None] = {}

    async def summary(self, inputs: PlanInputs, covered: int, counter: TokenCounter, run: RunPort) -> Summary | None:
        """Of the oldest `covered` Turns; None when there is none and none can be had in time."""
        conversation_id, digest = run.turn.conversation_id, source_digest(inputs.history[:covered])
        stored, latest = await self._database.read(
            lambda conn: (get_summary(conn, conversation_id, digest), latest_summary(conn, conversation_id))
        )
        known = None if stored is None else _read(stored)
        if known is not None:
            return known
        if digest in self._refused and not inputs.compact:
            return None
        parent = latest if latest is not None and _is_parent(latest, inputs, covered) else None
        text = await self._asked(inputs, covered, parent, counter, run)
        if text is None:
            self._refuse(digest)
            return None
        row = SummaryRow(
            conversation_id=conversation_id, source_digest=digest, parent_digest=None if parent is None else parent.source_digest,
            covered_turns=covered, text=text, kind=KIND, model_id=inputs.model.model_id, now=self._clock.now(),
        )
        await self._database.run(lambda conn: put_summary(conn, row))
        return Summary(covered, text)

    async def _asked(
        self, inputs: PlanInputs, covered: int, parent: SummaryRow | None, counter: TokenCounter, run: RunPort
    ) -> str | None:
        model, time_left = inputs.model, (run.deadline - self._clock.monotonic()) / 2
        rate = self._prefill.rate(model.model_id, counter.name)
        room = model.input_budget if rate is None else min(model.input_budget, int(rate * min(time_left, SUMMARY_EVALUATION_S)))
        earlier = None if parent is None else _read(parent)
        before, notes = (0, None) if earlier is None else (earlier.covered, earlier.text)
        words = summary_words(model.input_budget)
        request = await asyncio.to_thread(summary_request, inputs.history[before:covered], notes, room, counter, words)
        return None if request is None else await self._answer(request, inputs, counter, run, time_left)

    async def _answer(
        self, rendered: RenderedRequest, inputs: PlanInputs, counter: TokenCounter, run: RunPort, time_left: float
    ) -> str | None:
        request = ModelRequest(
            model=inputs.model, rendered=rendered, call=1, offered=(), quotations=(), correction_available=False,
            deadline=self._clock.monotonic() + time_left, kind="summary",
        )
        try:
            async with self._clock.timeout(time_left):
                answer = await self._broker.call(request, run.emit, _unheard, _unheard)
        except (RunError, TimeoutError):
            return None
        return accepted(answer.text, inputs.model.input_budget, counter) if answer.reason == "stop" else None

    def _refuse(self, digest: str) -> None:
        self._refused[digest] = None
        while len(self._refused) > SUMMARIES_REFUSED:
            self._refused.pop(next(iter(self._refused)))


def _is_parent(row: SummaryRow, inputs: PlanInputs, covered: int) -> bool:
    """Whether notes can be carried on to `covered` Turns: they speak of exactly the first of them."""
    return row.covered_turns < covered and covers(inputs.history, row.covered_turns, row.source_digest)


def _read(row: SummaryRow) -> Summary | None:
    """None for notes that cannot be read: they are made anew, or the lines stand in their place."""
    try:
        return decoded(row.kind, row.text, row.covered_turns)
    except ValueError:
        return None


async def _unheard(text: str) -> None:
    """A summary is not shown while it is made."""
