"""Browser sessions: in memory only, bounded, ended by rest, by a restart or by a newer login."""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from agent_builder.protocol.limits import GATEWAY_PORT, SESSION_IDLE_S, SESSIONS
from agent_builder.protocol.ports import Clock

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    """`session_id` is the cookie's value, `csrf_token` what a changing request must repeat in its header."""

    session_id: str
    csrf_token: str

    def owns(self, csrf_token: str) -> bool:
        return hmac.compare_digest(self.csrf_token.encode(), csrf_token.encode("latin-1", "replace"))


def cookie_name(port: int) -> str:
    """Cookies are not kept apart by port, so that each other port has its own name."""
    return "agent_builder_session" if port == GATEWAY_PORT else f"agent_builder_session_{port}"


class Sessions:
    """The sessions that are logged in, longest idle first."""

    def __init__(self, clock: Clock, port: int) -> None:
        self.cookie = cookie_name(port)
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._used: dict[str, float] = {}

    def open(self) -> Session:
        """A new session; one too many ends the one that rested longest."""
        self._end_resting()
        while len(self._sessions) >= SESSIONS:
            self.end(next(iter(self._sessions)))
        session = Session(secrets.token_urlsafe(_SECRET_BYTES), secrets.token_urlsafe(_SECRET_BYTES))
        self._sessions[session.session_id] = session
        self._used[session.session_id] = self._clock.monotonic()
        return session

    def find(self, cookies: Iterable[str]) -> Session | None:
        """The session that one of the Cookie headers names; it counts as used now."""
        self._end_resting()
        for value in _values(cookies, self.cookie):
            session = self._sessions.get(value)
            if session is not None:
                self._sessions.move_to_end(value)
                self._used[value] = self._clock.monotonic()
                return session
        return None

    def end(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        self._used.pop(session_id, None)

    def set_cookie(self, session: Session) -> str:
        """The Set-Cookie header of a login."""
        return f"{self.cookie}={session.session_id}; HttpOnly; SameSite=Strict; Path=/"

    def clear_cookie(self) -> str:
        return f"{self.cookie}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"

    def __len__(self) -> int:
        return len(self._sessions)

    def _end_resting(self) -> None:
        horizon = self._clock.monotonic() - SESSION_IDLE_S
        while self._sessions:
            oldest = next(iter(self._sessions))
            if self._used[oldest] >= horizon:
                return
            self.end(oldest)


def _values(cookies: Iterable[str], name: str) -> Iterable[str]:
    for header in cookies:
        for pair in header.split(";"):
            key, found, value = pair.strip().partition("=")
            if found and key == name:
                yield value
