"""Effect: something a Tool would do, as the operator is asked about it, and how to do exactly that."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from agent_builder.protocol.limits import PREVIEW_BYTES
from agent_builder.tools.calls import CapabilityResult
from agent_builder.tools.cuts import clip


class EffectStale(Exception):
    """What was bound for the approval is not so any more; nothing was changed. `sentence` says what."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class Effect:
    """`diff`: everything that would be done, at most DIFF_BYTES; `preview` and `truncated`: as much of it as an event holds.
    `check` (blocking) raises EffectStale when something that the approval binds has changed; `act`
    checks again and does it, or raises EffectStale. `again`: what would help then. An `interruptible` act ends when its Run does;
    any other is done to its end."""

    diff: str
    check: Callable[[], None]
    act: Callable[[], Coroutine[None, None, CapabilityResult]]
    again: str
    interruptible: bool = False

    @property
    def preview(self) -> str:
        return clip(self.diff, PREVIEW_BYTES, "\n…\n")

    @property
    def truncated(self) -> bool:
        return self.preview != self.diff
