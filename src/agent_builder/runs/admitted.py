"""AdmittedTurn: the proof that a Turn may run, and everything it runs with. Made by admission alone."""

from dataclasses import dataclass

from agent_builder.context.plan import ContextPlan
from agent_builder.context.toolset import EffectiveToolSet
from agent_builder.protocol.events import RunIdentity, RunStarted
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.request import TokenCounter
from agent_builder.storage.boundaries import Boundary
from agent_builder.storage.turn_rows import TurnRow


@dataclass(frozen=True, slots=True)
class AdmittedTurn:
    """Fixed for the whole Run. `preface`: what stands behind the message. `scope`: which observations its own will join.
    `started` and `boundary` are committed together, and nothing of the Turn is sent to a provider before."""

    identity: RunIdentity
    turn: TurnRow
    model: QualifiedModel
    counter: TokenCounter
    plan: ContextPlan
    toolset: EffectiveToolSet
    started: RunStarted
    boundary: Boundary
    preface: str
    scope: str
