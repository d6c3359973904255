import pytest

from agent_builder.gateway.auth import Sessions, cookie_name
from agent_builder.protocol.limits import SESSION_IDLE_S, SESSIONS
from tests.gateway.still_clock import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def sessions(clock: StillClock) -> Sessions:
    return Sessions(clock, 20815)


def test_each_port_has_its_own_cookie() -> None:
    assert cookie_name(20815) == "agent_builder_session"
    assert cookie_name(20816) == "agent_builder_session_20816"


def test_a_session_is_found_by_its_cookie_among_others(sessions: Sessions) -> None:
    session = sessions.open()
    cookies = [f"theme=dark; agent_builder_session_20816=x; agent_builder_session={session.session_id}; a=b"]
    assert sessions.find(cookies) == session
    assert sessions.find([f"agent_builder_session=wrong; agent_builder_session={session.session_id}"]) == session
    assert sessions.find([f"agent_builder_session={session.session_id}x"]) is None
    assert sessions.find([f"agent_builder_session_20816={session.session_id}"]) is None
    assert sessions.find(["agent_builder_session"]) is None
    assert sessions.find([]) is None


def test_ids_and_csrf_tokens_are_long_and_never_the_same(sessions: Sessions) -> None:
    made = [sessions.open() for _ in range(10)]
    secrets = {secret for session in made for secret in (session.session_id, session.csrf_token)}
    assert len(secrets) == 20
    assert min(map(len, secrets)) >= 43


def test_the_cookie_is_for_this_host_and_hidden_from_scripts(sessions: Sessions) -> None:
    session = sessions.open()
    assert sessions.set_cookie(session) == f"agent_builder_session={session.session_id}; HttpOnly; SameSite=Strict; Path=/"
    assert sessions.clear_cookie() == "agent_builder_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"


def test_only_the_own_csrf_token_counts(sessions: Sessions) -> None:
    one, other = sessions.open(), sessions.open()
    assert one.owns(one.csrf_token)
    assert not one.owns(other.csrf_token)
    assert not one.owns("")
    assert not one.owns("\u4e2d")


def test_one_session_too_many_ends_the_one_that_rested_longest(sessions: Sessions, clock: StillClock) -> None:
    made = []
    for _ in range(SESSIONS):
        made.append(sessions.open())
        clock.time += 1
    assert sessions.find([f"agent_builder_session={made[0].session_id}"]) == made[0]
    sessions.open()
    assert len(sessions) == SESSIONS
    assert sessions.find([f"agent_builder_session={made[0].session_id}"]) == made[0]
    assert sessions.find([f"agent_builder_session={made[1].session_id}"]) is None
    assert sessions.find([f"agent_builder_session={made[2].session_id}"]) == made[2]


def test_a_session_ends_after_twelve_hours_of_rest_and_not_before(sessions: Sessions, clock: StillClock) -> None:
    session = sessions.open()
    cookie = [f"agent_builder_session={session.session_id}"]
    clock.time += SESSION_IDLE_S
    assert sessions.find(cookie) == session
    clock.time += SESSION_IDLE_S + 1
    assert sessions.find(cookie) is None
    assert len(sessions) == 0


def test_an_ended_session_is_not_found(sessions: Sessions) -> None:
    session = sessions.open()
    sessions.end(session.session_id)
    sessions.end("unknown")
    assert sessions.find([f"agent_builder_session={session.session_id}"]) is None
