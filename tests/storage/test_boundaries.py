import pytest

from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.limits import BOUNDARIES_PER_CONVERSATION
from agent_builder.storage.boundaries import Boundary, BoundaryConflict, head_boundary, put_boundary, turn_boundary
from agent_builder.storage.database import Database
from tests.support.stored import conversation


@pytest.fixture
async def made(state: Database) -> str:
    return await state.run(conversation)


async def test_boundaries_form_a_chain(state: Database, made: str) -> None:
    one = Boundary(made, "t-1", "d-1", None, {"model": "m", "revision": "1"})
    two = Boundary(made, "t-2", "d-2", "d-1", {"model": "m"})
    await state.run(lambda conn: put_boundary(conn, one))
    await state.run(lambda conn: put_boundary(conn, two))
    assert await state.read(lambda conn: head_boundary(conn, made)) == two
    assert await state.read(lambda conn: [turn_boundary(conn, made, turn) for turn in ("t-1", "t-2", "t-3")]) == [one, two, None]


@pytest.mark.parametrize("previous", [None, "d-0", "d-2"])
async def test_a_boundary_that_does_not_follow_the_head_is_refused(state: Database, made: str, previous: str | None) -> None:
    one = Boundary(made, "t-1", "d-1", None, {})
    await state.run(lambda conn: put_boundary(conn, one))
    with pytest.raises(BoundaryConflict):
        await state.run(lambda conn: put_boundary(conn, Boundary(made, "t-2", "d-2", previous, {})))
    assert await state.read(lambda conn: head_boundary(conn, made)) == one


async def test_the_first_boundary_follows_nothing(state: Database, made: str) -> None:
    with pytest.raises(BoundaryConflict):
        await state.run(lambda conn: put_boundary(conn, Boundary(made, "t-1", "d-1", "d-0", {})))


async def test_a_turn_that_is_admitted_anew_replaces_its_own_boundary(state: Database, made: str) -> None:
    def story(conn):
        put_boundary(conn, Boundary(made, "t-1", "d-1", None, {}))
        put_boundary(conn, Boundary(made, "t-2", "d-2", "d-1", {}))
        put_boundary(conn, Boundary(made, "t-2", "d-3", "d-2", {"history": "less"}))
        return head_boundary(conn, made), conn.execute("SELECT count(*) FROM boundaries").fetchone()[0]

    assert await state.run(story) == (Boundary(made, "t-2", "d-3", "d-1", {"history": "less"}), 2)


async def test_the_newest_boundaries_of_a_conversation_are_kept(state: Database, made: str) -> None:
    def fill(conn):
        other = conversation(conn)
        put_boundary(conn, Boundary(other, "t", "d", None, {}))
        previous = None
        for number in range(BOUNDARIES_PER_CONVERSATION + 1):
            put_boundary(conn, Boundary(made, f"t-{number}", f"d-{number}", previous, {}))
            previous = f"d-{number}"
        gone, oldest = (turn_boundary(conn, made, turn) for turn in ("t-0", "t-1"))
        return gone, oldest is not None, head_boundary(conn, other) is not None, conn.execute("SELECT count(*) FROM boundaries").fetchone()[0]

    assert await state.run(fill) == (None, True, True, BOUNDARIES_PER_CONVERSATION + 1)


async def test_an_unknown_conversation_has_no_boundary(state: Database) -> None:
    with pytest.raises(NotFound):
        await state.run(lambda conn: put_boundary(conn, Boundary("none", "t", "d", None, {})))
