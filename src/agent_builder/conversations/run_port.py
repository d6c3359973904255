"""RunPort: what admission needs of a Run."""

from typing import Protocol

from agent_builder.protocol.events import RunIdentity
from agent_builder.protocol.ports import Emit
from agent_builder.storage.turn_rows import TurnRow


class RunPort(Protocol):
    """`deadline` on the monotonic clock; `emit` takes only ephemeral events before the
    admission is committed."""

    @property
    def identity(self) -> RunIdentity: ...

    @property
    def turn(self) -> TurnRow: ...

    @property
    def emit(self) -> Emit: ...

    @property
    def deadline(self) -> float: ...
