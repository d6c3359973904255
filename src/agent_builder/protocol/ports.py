"""The four function ports by which a room reaches upward. app.py hands them over; a fifth needs a decision record."""

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_builder.protocol.events import Payload


class Emit(Protocol):
    """sequencer -> llm, tools: gives facts of one boundary their place in the Run's sequence. Returns when the durable
    ones are committed; they become visible to subscribers only then."""

    def __call__(self, *payloads: "Payload") -> Awaitable[None]: ...


class AskChild(Protocol):
    """subagents -> tools/delegate.py: runs a message in another Agent and gives its answer, at most 8 KiB."""

    def __call__(self, agent_id: str, message: str) -> Awaitable[str]: ...


class EngineFor(Protocol):
    """registry -> tasks: the QueryEngine of one Conversation."""

    def __call__(self, agent_id: str, conversation_id: str) -> object: ...


class Clock(Protocol):
    """Time, so that tests can set it."""

    def now(self) -> datetime:
        """UTC, with its zone."""

    def monotonic(self) -> float:
        """Seconds."""

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raises TimeoutError out of the block after `seconds`; None never does."""
