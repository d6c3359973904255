"""A look at a Run's context: what its plan was made of, never what it said. One section's text can be revealed for
diagnosis where the operator enabled that at start; instructions never are, and credentials are struck out.
"""

import logging
import re
from typing import Literal

from agent_builder.context.plan import ContextPlan, Section
from agent_builder.conversations.admission import Admission
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.errors import Internal, NotFound
from agent_builder.protocol.events import RunStarted
from agent_builder.protocol.limits import REVEAL_BYTES
from agent_builder.protocol.messages import Record
from agent_builder.storage.database import Database
from agent_builder.storage.journal import read_events
from agent_builder.storage.turns import get_turn_by_run

log = logging.getLogger(__name__)

NEVER_REVEALED = frozenset({"platform", "agent", "workspace"})


class SectionView(Record):
    """A section without its text. `revealable`: by the diagnostic reveal; never the instructions."""

    index: int
    name: str
    role: Literal["system", "user", "conversation"]
    trust: Literal["trusted", "operator", "untrusted"]
    provenance: str
    bytes: int
    tokens: int
    digest: str
    revealable: bool


class HistoryView(Record):
    """Completed Turns: whole, left out, and only in the notes."""

    included: int
    omitted: int
    collapsed: int


class ContextView(Record):
    """`source`: plan (in memory, checked against its digests), run_started (the plan has left memory), none (the Turn was
    never admitted). Tokens; `headroom` and `output_reserve` are kept free."""

    run_id: str
    source: Literal["plan", "run_started", "none"]
    model_id: str | None = None
    plan_digest: str | None = None
    toolset_digest: str | None = None
    tools: list[str] | None = None
    renderer: str | None = None
    estimator: str | None = None
    native_window: int | None = None
    window: int | None = None
    output_reserve: int | None = None
    input_budget: int | None = None
    headroom: int | None = None
    admission_tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    run_s: float | None = None
    history: HistoryView | None = None
    sections: list[SectionView] | None = None


class RevealedSection(Record):
    """An excerpt of one section. `truncated`: there is more of it."""

    run_id: str
    index: int
    name: str
    text: str
    truncated: bool


class Inspection:
    """One per Agent. `reveal_enabled`: HARNESS_V2_CONTEXT_REVEAL was set at start."""

    def __init__(self, database: Database, admission: Admission, *, reveal_enabled: bool = False) -> None:
        self._database = database
        self._plans = admission.plans
        self._reveal_enabled = reveal_enabled

    async def of(self, run_id: str) -> ContextView:
        """Raises NotFound for a Run that this Agent does not have."""
        await self._require_run(run_id)
        plan = self._plans.get(run_id)
        if plan is not None:
            return _plan_view(run_id, plan)
        events = await self._database.read(lambda conn: read_events(conn, run_id, 0, 1, types=[RunStarted.type]))
        return _started_view(run_id, RunStarted.model_validate(events[0].payload)) if events else ContextView(run_id=run_id, source="none")

    async def reveal(self, run_id: str, index: int) -> RevealedSection:
        """At most REVEAL_BYTES of one section; leaves a line in the log. Raises NotFound: disabled, unknown, no
        longer in memory, or a section that is never shown."""
        await self._require_run(run_id)
        plan = self._plans.get(run_id)
        if not self._reveal_enabled or plan is None or not 0 <= index < len(plan.sections):
            raise NotFound
        section = plan.sections[index]
        if not _revealable(section):
            raise NotFound
        data = redacted(section.text).encode()
        text = data[:REVEAL_BYTES].decode(errors="ignore")
        log.warning("context reveal: run %s, section %d (%s), %d bytes", run_id, index, section.name, len(text.encode()))
        return RevealedSection(run_id=run_id, index=index, name=section.name, text=text, truncated=len(data) > REVEAL_BYTES)

    async def _require_run(self, run_id: str) -> None:
        if await self._database.read(lambda conn: get_turn_by_run(conn, run_id)) is None:
            raise NotFound


def _plan_view(run_id: str, plan: ContextPlan) -> ContextView:
    if any(digest_bytes(section.text.encode()) != section.digest for section in plan.sections if section.name != "turn"):
        raise Internal
    return ContextView(
        run_id=run_id, source="plan", model_id=plan.model_id, plan_digest=plan.digest, toolset_digest=plan.toolset.digest,
        tools=[spec.id for spec in plan.toolset.specs], renderer=plan.renderer, estimator=plan.admission.estimator,
        native_window=plan.native_window, window=plan.window, output_reserve=plan.output_reserve, input_budget=plan.input_budget,
        headroom=plan.headroom, admission_tokens=plan.admission.tokens, model_calls=plan.budgets.model_calls,
        tool_calls=plan.budgets.tool_calls, run_s=plan.budgets.run_s,
        history=HistoryView(included=plan.history.included, omitted=plan.history.omitted, collapsed=plan.history.collapsed),
        sections=[_section_view(index, section) for index, section in enumerate(plan.sections)],
    )


def _section_view(index: int, section: Section) -> SectionView:
    return SectionView(
        index=index, name=section.name, role=section.role, trust=section.trust, provenance=section.provenance, bytes=section.bytes,
        tokens=section.tokens, digest=section.digest, revealable=_revealable(section),
    )


def _started_view(run_id: str, started: RunStarted) -> ContextView:
    return ContextView(
        run_id=run_id, source="run_started", model_id=started.model_id, plan_digest=started.plan_digest,
        toolset_digest=started.toolset_digest, window=started.window, input_budget=started.input_budget,
        admission_tokens=started.admission_tokens, model_calls=started.model_calls, tool_calls=started.tool_calls, run_s=started.run_s,
        history=HistoryView(included=started.history_included, omitted=started.history_omitted, collapsed=started.history_collapsed),
    )


def _revealable(section: Section) -> bool:
    return section.name not in NEVER_REVEALED


_SECRETS = tuple(re.compile(pattern, re.IGNORECASE) for pattern in (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\b(?:sk|pk|rk|ghp|gho|ghs|ghu|glpat|xox[abprs])[-_][A-Za-z0-9_-]{8,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
    r"(?<=://)[^\s/@]+:[^\s/@]+(?=@)",
    r"(?<=bearer )\S+",
    r"""(?<![A-Za-z])[\w-]*(?:password|passwd|secret|token|api[_-]?key|credential|authorization)[\w-]*["']?\s*[:=]\s*(?!bearer )("[^"\n]*"?|'[^'\n]*'?|\S+)""",
))


def redacted(text: str) -> str:
    """The text with everything that looks like a credential struck out."""
    for pattern in _SECRETS:
        text = pattern.sub("[redacted]", text)
    return text
