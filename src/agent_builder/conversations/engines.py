"""QueryEngines: the Conversations of one Agent, and one QueryEngine for each that was opened."""

import sqlite3
from dataclasses import dataclass
from typing import Literal

from agent_builder.conversations.branching import branch
from agent_builder.conversations.engine import EngineParts, QueryEngine
from agent_builder.conversations.pages import Page, Pages
from agent_builder.conversations.titles import checked_title
from agent_builder.protocol.errors import AgentDraining
from agent_builder.protocol.ids import new_id
from agent_builder.storage import conversations as rows
from agent_builder.storage.conversations import ConversationRow
from agent_builder.storage.delegations import Place, create_child_conversation


@dataclass(frozen=True, slots=True)
class Continued:
    conversation: ConversationRow
    created: bool


@dataclass(frozen=True, slots=True)
class Child:
    """A child Conversation that shall be made. `parent`: the Conversation that asks."""

    conversation_id: str
    task_id: str
    parent: Place


class QueryEngines:
    """Holds at most as many engines as there may be Conversations: one is made on first use and dropped on delete."""

    def __init__(self, parts: EngineParts, pages: Pages) -> None:
        self._parts = parts
        self._pages = pages
        self._database = parts.run_parts.database
        self._clock = parts.run_parts.clock
        self._engines: dict[str, QueryEngine] = {}
        self._closed = False

    async def get(self, conversation_id: str) -> QueryEngine:
        """Raises NotFound, and AgentDraining once the Agent is fenced."""
        engine = self._engines.get(conversation_id)
        if engine is None:
            await self.read(conversation_id)
            if self._closed:
                raise AgentDraining
            engine = self._engines.setdefault(conversation_id, QueryEngine(conversation_id, self._parts))
        return engine

    def close(self) -> None:
        """No Turn begins any more."""
        self._closed = True
        for engine in self._engines.values():
            engine.retire(AgentDraining)

    async def create(self, title: str | None) -> ConversationRow:
        wanted = None if title is None else checked_title(title)
        new, now = new_id(), self._clock.now()
        return await self._database.run(lambda conn: rows.create_conversation(conn, new, wanted, now))

    async def create_child(self, title: str, child: Child) -> ConversationRow:
        """A Conversation that a delegation has made. Raises ConversationLimit, StorageFull."""
        now = self._clock.now()
        return await self._database.run(
            lambda conn: create_child_conversation(conn, child.conversation_id, title, now, child.parent, child.task_id)
        )

    async def list(self) -> list[ConversationRow]:
        return await self._database.read(rows.list_conversations)

    async def read(self, conversation_id: str) -> ConversationRow:
        return await self._database.read(lambda conn: rows.get_conversation(conn, conversation_id))

    async def page(self, conversation_id: str, cursor: str | None) -> Page:
        return await self._pages.read(conversation_id, cursor)

    async def rename(self, conversation_id: str, title: str) -> ConversationRow:
        wanted, now = checked_title(title), self._clock.now()
        return await self._database.run(lambda conn: rows.rename_conversation(conn, conversation_id, wanted, now))

    async def require_idle(self, conversation_id: str) -> None:
        """Raises NotFound, ConversationBusy."""
        await self._database.read(lambda conn: rows.idle_key(conn, conversation_id))

    async def delete(self, conversation_id: str) -> None:
        """Removes everything of the Conversation; its streams end and its engine is retired."""

        def transaction(conn: sqlite3.Connection) -> list[str]:
            return rows.delete_conversation(conn, conversation_id)

        run_ids = await self._database.run(transaction)
        engine = self._engines.pop(conversation_id, None)
        if engine is not None:
            engine.retire()
        self._parts.run_parts.live.forget(run_ids)

    async def continue_(self, conversation_id: str, mode: Literal["continue", "branch"]) -> Continued:
        if mode == "continue":
            return Continued(await self.read(conversation_id), created=False)
        return Continued(await branch(self._database, conversation_id, self._clock), created=True)
