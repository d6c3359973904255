"""Pages of a Conversation, and the cursor that leads from one to the next older one.

A cursor `turn-page-v2.<base64url of position and HMAC-SHA256>` is worth something for one Agent, one Conversation, one
revision and one process only. Clients cannot make or change one.
"""

import base64
import binascii
import hmac
import sqlite3
from dataclasses import dataclass

from agent_builder.protocol.errors import InvalidSessionCursor
from agent_builder.protocol.limits import TURNS_PER_PAGE
from agent_builder.storage.conversations import ConversationRow, get_conversation
from agent_builder.storage.database import Database
from agent_builder.storage.turns import TurnRow, turn_page

_PREFIX = "turn-page-v2."
_POSITION_BYTES = 8
_MAC_BYTES = 32


@dataclass(frozen=True, slots=True)
class Page:
    """`turns` ascending. `next_before_cursor`: None when nothing is older."""

    conversation: ConversationRow
    turns: list[TurnRow]
    next_before_cursor: str | None


class Pages:
    """Of one Agent. `key`: random, made once per process, so that a restart ends all cursors."""

    def __init__(self, database: Database, agent_id: str, key: bytes) -> None:
        self._database = database
        self._cursors = PageCursors(agent_id, key)

    async def read(self, conversation_id: str, cursor: str | None) -> Page:
        """At most 32 Turns: the newest, or those before `cursor`. Raises NotFound, InvalidSessionCursor."""
        return await self._database.read(lambda conn: self._page(conn, conversation_id, cursor))

    def _page(self, conn: sqlite3.Connection, conversation_id: str, cursor: str | None) -> Page:
        conversation = get_conversation(conn, conversation_id)
        before = None if cursor is None else self._cursors.position(cursor, conversation_id, conversation.revision)
        turns, older = turn_page(conn, conversation_id, before, TURNS_PER_PAGE)
        following = None if older is None else self._cursors.make(conversation_id, conversation.revision, older)
        return Page(conversation, turns, following)


class PageCursors:
    def __init__(self, agent_id: str, key: bytes) -> None:
        self._agent_id = agent_id
        self._key = key

    def make(self, conversation_id: str, revision: int, position: int) -> str:
        encoded = position.to_bytes(_POSITION_BYTES, "big")
        token = base64.urlsafe_b64encode(encoded + self._mac(conversation_id, revision, encoded))
        return _PREFIX + token.decode().rstrip("=")

    def position(self, cursor: str, conversation_id: str, revision: int) -> int:
        """Raises InvalidSessionCursor for anything but exactly what `make` gave out for the same four."""
        token = _decode(cursor)
        encoded, mac = token[:_POSITION_BYTES], token[_POSITION_BYTES:]
        if not hmac.compare_digest(mac, self._mac(conversation_id, revision, encoded)):
            raise InvalidSessionCursor
        position = int.from_bytes(encoded, "big")
        if cursor != self.make(conversation_id, revision, position):  # base64 has several spellings of one value
            raise InvalidSessionCursor
        return position

    def _mac(self, conversation_id: str, revision: int, position: bytes) -> bytes:
        bound = "\n".join((_PREFIX, self._agent_id, conversation_id, str(revision), position.hex()))
        return hmac.digest(self._key, bound.encode(), "sha256")


def _decode(cursor: str) -> bytes:
    if not cursor.startswith(_PREFIX) or not cursor.isascii():
        raise InvalidSessionCursor
    body = cursor.removeprefix(_PREFIX)
    try:
        token = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise InvalidSessionCursor from error
    if len(token) != _POSITION_BYTES + _MAC_BYTES:
        raise InvalidSessionCursor
    return token
