"""Child Conversations whose parent Conversation is gone.

A parent and its children live in two databases, so they cannot go in one transaction: the parent goes first, and what a crash leaves
of its children goes at the next start.
"""

import sqlite3
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from agent_builder.storage.conversations import delete_conversation, list_conversations
from agent_builder.storage.database import Database
from agent_builder.storage.delegations import ChildMark, child_marks


@dataclass(frozen=True, slots=True)
class KeptConversations:
    """Of one Agent: the ids of all, and whose children some of them are."""

    ids: frozenset[str]
    marks: tuple[ChildMark, ...]


def kept_conversations(conn: sqlite3.Connection) -> KeptConversations:
    return KeptConversations(frozenset(row.conversation_id for row in list_conversations(conn)), tuple(child_marks(conn)))


def orphans(agents: Set[str], kept: Mapping[str, KeptConversations]) -> dict[str, list[str]]:
    """By Agent, the Conversations to be removed. `agents`: all there are; of one that could not be read every Conversation may still
    be there, so its children stay."""
    found = {
        agent_id: [mark.conversation_id for mark in own.marks if _gone(mark, agents, kept)] for agent_id, own in kept.items()
    }
    return {agent_id: conversations for agent_id, conversations in found.items() if conversations}


async def delete_conversations(database: Database, conversations: Sequence[str]) -> None:
    """Of an Agent in which nothing runs."""

    def transaction(conn: sqlite3.Connection) -> None:
        for conversation_id in conversations:
            delete_conversation(conn, conversation_id)

    await database.run(transaction)


def _gone(mark: ChildMark, agents: Set[str], kept: Mapping[str, KeptConversations]) -> bool:
    if mark.parent.agent_id not in agents:
        return True
    known = kept.get(mark.parent.agent_id)
    return known is not None and mark.parent.conversation_id not in known.ids
