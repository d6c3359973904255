"""Login, logout, and whether somebody is logged in."""

from starlette.types import ASGIApp

from agent_builder.gateway.answers import LoginAnswer, SessionAnswer
from agent_builder.gateway.bodies import LoginBody
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.protocol.errors import LoginThrottled, Unauthenticated


async def login(call: Call) -> ASGIApp:
    """The socket's peer is what counts: headers that name another address are never looked at."""
    peer, door = call.peer, call.door
    await door.throttle.admit(peer)
    if not call.services.access_token.matches(call.sent(LoginBody).token):
        door.throttle.failed(peer)
        raise Unauthenticated("This access token is not right.")
    door.throttle.succeeded(peer)
    if call.session is not None:
        door.sessions.end(call.session.session_id)
    session = door.sessions.open()
    return reply(LoginAnswer(csrf_token=session.csrf_token), headers={"Set-Cookie": door.sessions.set_cookie(session)})


async def logout(call: Call) -> ASGIApp:
    assert call.session is not None
    call.door.sessions.end(call.session.session_id)
    return reply(None, headers={"Set-Cookie": call.door.sessions.clear_cookie()})


async def read_session(call: Call) -> ASGIApp:
    if call.session is None:
        return reply(SessionAnswer(authenticated=False))
    return reply(SessionAnswer(authenticated=True, csrf_token=call.session.csrf_token))


ENDPOINTS = (
    Endpoint("POST", "/api/login", "Log in with the access token", login, LoginAnswer, body=LoginBody, public=True,
             errors=(Unauthenticated, LoginThrottled)),
    Endpoint("POST", "/api/logout", "End this session", logout, None, 204),
    Endpoint("GET", "/api/session", "Whether this browser is logged in", read_session, SessionAnswer, public=True),
)
