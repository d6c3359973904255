"""The rule by which the oldest Turns leave."""

from hypothesis import given
from hypothesis import strategies as st

from agent_builder.context.compaction import Room, TurnSize, past_turns

ROOM = Room(fixed=1000, note=500, first=7000, later=8000, target=4000)
sizes = st.lists(st.builds(lambda message, rest: TurnSize(message, message + rest), st.integers(1, 800), st.integers(1, 1500)), max_size=60)
messages = st.integers(0, 5000)


def history_start(turns, message, room, *, floor=0, compact=False) -> int:
    return past_turns(turns, room, floor=floor).start_for(message, compact=compact)


def held(turns, start) -> int:
    return sum(turn.whole for turn in turns[start:])


@given(sizes, messages)
def test_what_stays_fits_with_the_notes(turns, message):
    start = history_start(turns, message, ROOM)
    if start < len(turns):
        assert ROOM.used(start, held(turns, start), message) <= ROOM.first


@given(sizes, messages)
def test_nothing_leaves_while_everything_fits(turns, message):
    if ROOM.used(1, held(turns, 0), max(message, 800)) <= ROOM.first:
        assert history_start(turns, message, ROOM) == 0


@given(sizes)
def test_a_turn_that_left_does_not_come_back(turns):
    starts = [history_start(turns[:count], turns[count].message, ROOM) for count in range(len(turns))]
    assert starts == sorted(starts)


@given(sizes)
def test_several_turns_leave_at_once(turns):
    starts = [history_start(turns[:count], turns[count].message, ROOM) for count in range(len(turns))]
    for count in range(1, len(starts)):
        if starts[count] != starts[count - 1] and starts[count] < count - 1:
            assert ROOM.used(1, held(turns[:count], starts[count])) <= ROOM.target


@given(sizes, messages)
def test_the_operators_compaction_always_takes_more_away(turns, message):
    automatic, asked = history_start(turns, message, ROOM), history_start(turns, message, ROOM, compact=True)
    assert asked >= automatic
    if len(turns) - automatic >= 2:
        assert asked > automatic


@given(sizes, st.integers(0, 70))
def test_history_never_begins_before_the_operators_last_compaction(turns, floor):
    floor = min(floor, len(turns))
    assert history_start(turns, 100, ROOM, floor=floor) >= floor


def test_the_newest_turn_stays_whole_while_it_can_be_admitted():
    large = TurnSize(100, 5000)
    assert history_start([TurnSize(100, 900), large], 100, ROOM) == 0
    assert history_start([TurnSize(100, 2000), large], 100, ROOM) == 1
    assert history_start([TurnSize(100, 2000), large], 501, ROOM) == 2
