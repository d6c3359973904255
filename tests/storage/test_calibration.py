from datetime import timedelta

from agent_builder.protocol.limits import CALIBRATION_SAMPLES, CALIBRATION_SCOPES
from agent_builder.protocol.request import TemplateOverhead, Units
from agent_builder.storage.calibration import (
    Observation,
    add_observation,
    get_overhead,
    get_rate,
    observations,
    put_overhead,
    put_rate,
)
from agent_builder.storage.database import Database
from tests.support.stored import NOW, open_state


def seen(scope: str, number: int) -> Observation:
    return Observation(
        scope, f"run-{number}", "digest", 100 + number, 7, Units(3, 2, number), 90 + number, None if number % 2 else 40, 250, bool(number % 2), NOW
    )


async def test_observations_come_back_newest_first_within_their_scope(state: Database) -> None:
    def story(conn):
        for number in range(3):
            add_observation(conn, seen("a", number))
            add_observation(conn, seen("b", number + 10))
        return observations(conn, "a", 2), observations(conn, "c", 2)

    assert await state.run(story) == ([seen("a", 2), seen("a", 1)], [])


async def test_the_newest_sixteen_of_a_scope_are_kept_also_over_a_restart(state: Database, tmp_path) -> None:
    def fill(conn):
        add_observation(conn, seen("b", 0))
        for number in range(CALIBRATION_SAMPLES + 1):
            add_observation(conn, seen("a", number))

    await state.run(fill)
    await state.close()
    again = await open_state(tmp_path)
    found = await again.read(lambda conn: (observations(conn, "a", 100), observations(conn, "b", 100)))
    await again.close()
    assert found == ([seen("a", number) for number in range(CALIBRATION_SAMPLES, 0, -1)], [seen("b", 0)])


async def test_the_scopes_observed_last_are_kept(state: Database) -> None:
    def fill(conn):
        for number in range(CALIBRATION_SCOPES):
            add_observation(conn, seen(f"scope-{number}", number))
        add_observation(conn, seen("scope-0", 1))
        add_observation(conn, seen("one more", 0))
        return [len(observations(conn, scope, 9)) for scope in ("scope-0", "scope-1", "scope-2", "one more")]

    assert await state.run(fill) == [2, 0, 1, 1]


async def test_a_rate_is_replaced_and_the_oldest_go(state: Database) -> None:
    def fill(conn):
        put_rate(conn, "first", 10.5, NOW)
        put_rate(conn, "first", 20.25, NOW)
        before = get_rate(conn, "first")
        for number in range(CALIBRATION_SCOPES):
            put_rate(conn, f"rate-{number}", float(number), NOW + timedelta(seconds=number + 1))
        return before, get_rate(conn, "first"), get_rate(conn, "rate-0"), get_rate(conn, "unheard")

    assert await state.run(fill) == (20.25, None, 0.0, None)


async def test_an_overhead_is_replaced_and_the_oldest_go_also_over_a_restart(state: Database, tmp_path) -> None:
    def fill(conn):
        put_overhead(conn, "first", TemplateOverhead(200, 8, 9, 10), NOW)
        put_overhead(conn, "first", TemplateOverhead(100, 4, 5, 6), NOW)
        before = get_overhead(conn, "first")
        for number in range(CALIBRATION_SCOPES):
            put_overhead(conn, f"scope-{number}", TemplateOverhead(number, 1, 2, 3), NOW + timedelta(seconds=number + 1))
        return before

    assert await state.run(fill) == TemplateOverhead(100, 4, 5, 6)
    await state.close()
    again = await open_state(tmp_path)
    found = await again.read(lambda conn: [get_overhead(conn, scope) for scope in ("first", "scope-0", "unheard")])
    await again.close()
    assert found == [None, TemplateOverhead(0, 1, 2, 3), None]
