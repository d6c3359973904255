"""The four function ports by which a room reaches upward. app.py hands them over; a fifth needs a decision record."""

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from agent_builder.protocol.delegation import ChildEnd, Delegation, OtherAgent
    from agent_builder.protocol.events import Payload, RunIdentity


class Emit(Protocol):
    """sequencer -> llm, tools: gives facts of one boundary their place in the Run's sequence. Returns when the durable
    ones are committed; they become visible to subscribers only then."""

    def __call__(self, *payloads: "Payload") -> Awaitable[None]: ...


class AskChild(Protocol):
    """subagents -> tools/delegate.py: another Agent works on a message in a Conversation of its own and answers."""

    def target(self, agent_id: str) -> "OtherAgent":
        """An active Agent other than the asking one. From any thread. Raises DelegationRefused."""

    def require_room(self, asking: "RunIdentity") -> None:
        """Whether this Run may delegate now. From any thread. Raises DelegationRefused."""

    async def __call__(self, delegation: "Delegation") -> "ChildEnd":
        """Returns when the child Run has left nothing behind; cancelled, it ends the child Run first. Raises DelegationRefused."""


Engines_co = TypeVar("Engines_co", covariant=True)


class EngineFor(Protocol[Engines_co]):
    """registry -> subagents: the QueryEngines of another Agent, opened if need be."""

    def __call__(self, agent_id: str) -> Awaitable[Engines_co]:
        """Raises NotFound, AgentDraining, AgentDamaged, StorageFull."""


class Clock(Protocol):
    """Time, so that tests can set it."""

    def now(self) -> datetime:
        """UTC, with its zone."""

    def monotonic(self) -> float:
        """Seconds."""

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raises TimeoutError out of the block after `seconds`; None never does."""
