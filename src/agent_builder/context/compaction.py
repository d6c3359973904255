"""Which past Turns stay whole. Only whole Turns leave, from the oldest end, and when they must, many leave at once, so that
the point where the history begins rests for several Turns and a provider's evaluated prefix survives.

The point is not stored: the same rule is replayed over all Turns with the sizes of the model in use. So it is the same
after a restart, and a larger window gets more of the history back.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnSize:
    """Tokens of a past Turn: of its message with what stood behind it, and of all of it."""

    message: int
    whole: int


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens. `fixed`: instructions, tools, reserve. `note`: kept for notes once a Turn has left. `first`: the most that a
    Turn's first request may have, `later`: that a later one may have, `target`: what compaction frees down to."""

    fixed: int
    note: int
    first: int
    later: int
    target: int

    def used(self, start: int, held: int, more: int = 0) -> int:
        return self.fixed + (self.note if start else 0) + held + more


@dataclass(frozen=True, slots=True)
class Past:
    """The past Turns as the next one finds them: the `start` oldest have left, the others take `held` tokens."""

    sizes: Sequence[TurnSize]
    room: Room
    start: int
    held: int

    def start_for(self, message: int, *, compact: bool = False) -> int:
        """How many have left once a message of so many tokens stands behind them. `compact`: the operator asks for it."""
        start, held, end = self.start, self.held, len(self.sizes)
        if self.room.used(start, held, message) > self.room.first:
            start, held = _leave(self.sizes, start, end, held, message, self.room, self.room.target)
        if compact:
            target = min(self.room.target // 2, self.room.fixed + self.room.note + message + held // 2)
            start, held = _leave(self.sizes, start, end, held, message, self.room, target)
        return start

    def admits(self, start: int, message: int) -> bool:
        """Whether the message and the Turns from `start` on fit into a Turn's first request."""
        return self.room.used(start, sum(size.whole for size in self.sizes[start:]), message) <= self.room.first


def past_turns(sizes: Sequence[TurnSize], room: Room, *, floor: int = 0) -> Past:
    """`floor`: how many left at the operator's word before."""
    start, held = floor, 0
    for index in range(floor, len(sizes)):
        size = sizes[index]
        if room.used(start, held, size.message) > room.first:
            start, held = _leave(sizes, start, index, held, size.message, room, room.target)
        held += size.whole
        if room.used(start, held) > room.later:
            start, held = _leave(sizes, start, index + 1, held, 0, room, room.target)
    return Past(sizes, room, start, held)


def _leave(
    sizes: Sequence[TurnSize], start: int, end: int, held: int, message: int, room: Room, target: int
) -> tuple[int, int]:
    """Turns leave until `target` is met; the newest one only if the request could not be admitted with it."""
    while start < end and room.used(1, held, message) > (target if start < end - 1 else room.first):
        held -= sizes[start].whole
        start += 1
    return start, held
