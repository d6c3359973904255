"""The phase of an Agent as its operator sees it: derived from the facts each time, stored nowhere."""

from dataclasses import dataclass
from enum import StrEnum

from agent_builder.storage.registry import AgentState


class Phase(StrEnum):
    """`draining`: a change waits for Runs to end. `incomplete`: the runtime environment is missing; it is built at the next
    start or first use. `damaged`: state cannot be read; nothing was deleted."""

    CREATING = "creating"
    READY = "ready"
    RUNNING = "running"
    DRAINING = "draining"
    UPGRADING = "upgrading"
    DELETING = "deleting"
    INCOMPLETE = "incomplete"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Facts:
    """`state`: of the registry row. `data`: the data root has its database. `environment`: the generation's is there.
    `damaged`: opening the database failed. `active_runs`: a count."""

    state: AgentState
    data: bool
    environment: bool
    damaged: bool
    active_runs: int


def derive_phase(facts: Facts) -> Phase:
    """Total: every combination has one phase. A change in progress says more than what it has not made yet or already
    removed."""
    match facts.state:
        case AgentState.CREATING:
            return Phase.CREATING
        case AgentState.UPGRADING:
            return Phase.DRAINING if facts.active_runs else Phase.UPGRADING
        case AgentState.DELETING:
            return Phase.DRAINING if facts.active_runs else Phase.DELETING
        case AgentState.ACTIVE:
            return _active_phase(facts)


def _active_phase(facts: Facts) -> Phase:
    if facts.damaged or not facts.data:
        return Phase.DAMAGED
    if not facts.environment:
        return Phase.INCOMPLETE
    return Phase.RUNNING if facts.active_runs else Phase.READY
