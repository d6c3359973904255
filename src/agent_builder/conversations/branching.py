"""A branch: a new Conversation that goes on from the completed end of another one."""

import sqlite3

from agent_builder.conversations.titles import branch_title
from agent_builder.protocol.ids import new_id
from agent_builder.protocol.ports import Clock
from agent_builder.storage.conversations import ConversationRow, branch_conversation, get_conversation
from agent_builder.storage.database import Database


async def branch(database: Database, conversation_id: str, clock: Clock) -> ConversationRow:
    """One transaction; nothing is copied by hand. Raises NotFound, ConversationBusy, ConversationLimit, and InvalidRequest
    where no Turn is completed."""
    new, now = new_id(), clock.now()

    def transaction(conn: sqlite3.Connection) -> ConversationRow:
        title = branch_title(get_conversation(conn, conversation_id).title)
        return branch_conversation(conn, conversation_id, new, title, now)

    return await database.run(transaction)
