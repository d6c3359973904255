"""Conversations: list, pages, names, branches, preparation and what the next Turn may hold."""

from starlette.types import ASGIApp

from agent_builder.commands.command_types import (
    CancelPreparation,
    ContinueConversation,
    CreateConversation,
    DeleteConversation,
    RenameConversation,
)
from agent_builder.conversations.preview import ContextPreview
from agent_builder.gateway.answers import (
    ConversationAnswer,
    ConversationsAnswer,
    OutcomeAnswer,
    PageAnswer,
    PreparationAnswer,
)
from agent_builder.gateway.bodies import (
    CancelPreparationBody,
    ContinueBody,
    CreateConversationBody,
    PageQuery,
    PreviewQuery,
    RenameConversationBody,
)
from agent_builder.gateway.endpoint import Call, Endpoint, reply
from agent_builder.gateway.routes.agents import ONE as AGENT
from agent_builder.gateway.views import conversation_answer, page_answer
from agent_builder.protocol.errors import (
    AgentDamaged,
    AgentDraining,
    ConversationBusy,
    ConversationLimit,
    InvalidSessionCursor,
    StorageFull,
)

ALL = f"{AGENT}/sessions"
ONE = f"{ALL}/{{conversation_id}}"
_RUNTIME = (AgentDraining, AgentDamaged)
_CHANGE = (*_RUNTIME, StorageFull)


async def list_conversations(call: Call) -> ASGIApp:
    rows = await (await call.runtime()).engines.list()
    return reply(ConversationsAnswer(items=[conversation_answer(row) for row in rows]))


async def create_conversation(call: Call) -> ASGIApp:
    row = await call.services.bus.dispatch(CreateConversation(call.agent_id, call.sent(CreateConversationBody).title))
    return reply(conversation_answer(row), 201)


async def read_page(call: Call) -> ASGIApp:
    page = await (await call.runtime()).engines.page(call.conversation_id, call.sent(PageQuery).before)
    return reply(page_answer(page))


async def rename_conversation(call: Call) -> ASGIApp:
    title = call.sent(RenameConversationBody).title
    row = await call.services.bus.dispatch(RenameConversation(call.agent_id, call.conversation_id, title))
    return reply(conversation_answer(row))


async def delete_conversation(call: Call) -> ASGIApp:
    await call.services.bus.dispatch(DeleteConversation(call.agent_id, call.conversation_id))
    return reply(None)


async def continue_conversation(call: Call) -> ASGIApp:
    mode = call.sent(ContinueBody).mode
    continued = await call.services.bus.dispatch(ContinueConversation(call.agent_id, call.conversation_id, mode))
    return reply(conversation_answer(continued.conversation), 201 if continued.created else 200)


async def read_preparation(call: Call) -> ASGIApp:
    state, operation_id = (await (await call.runtime()).engines.get(call.conversation_id)).preparation()
    return reply(PreparationAnswer(state=state, operation_id=operation_id))


async def cancel_preparation(call: Call) -> ASGIApp:
    operation_id = call.sent(CancelPreparationBody).operation_id
    outcome = await call.services.bus.dispatch(CancelPreparation(call.agent_id, call.conversation_id, operation_id))
    return reply(OutcomeAnswer(outcome=outcome), 202)


async def read_preview(call: Call) -> ASGIApp:
    """For the model that the page would send with the next message."""
    return reply(await (await call.runtime()).preview.of(call.conversation_id, call.sent(PreviewQuery).model_id))


ENDPOINTS = (
    Endpoint("GET", ALL, "List Conversations, newest activity first", list_conversations, ConversationsAnswer, errors=_RUNTIME),
    Endpoint("POST", ALL, "Create a Conversation", create_conversation, ConversationAnswer, 201, body=CreateConversationBody,
             errors=(*_CHANGE, ConversationLimit)),
    Endpoint("GET", ONE, "Read a page of Turns, the newest without a position", read_page, PageAnswer, query=PageQuery,
             errors=(*_RUNTIME, InvalidSessionCursor)),
    Endpoint("PATCH", ONE, "Rename a Conversation", rename_conversation, ConversationAnswer, body=RenameConversationBody,
             errors=_CHANGE),
    Endpoint("DELETE", ONE, "Delete a Conversation and everything of it", delete_conversation, None, 204,
             errors=(*_CHANGE, ConversationBusy)),
    Endpoint("POST", f"{ONE}/continue", "Continue here (200), or branch from the completed end (201)", continue_conversation,
             ConversationAnswer, 200, body=ContinueBody, errors=(*_CHANGE, ConversationBusy, ConversationLimit), also=(201,)),
    Endpoint("GET", f"{ONE}/preparation", "What prepares or runs here", read_preparation, PreparationAnswer, errors=_RUNTIME),
    Endpoint("POST", f"{ONE}/preparation/cancel", "Ask for the end of exactly this operation", cancel_preparation, OutcomeAnswer, 202,
             body=CancelPreparationBody, errors=_RUNTIME),
    Endpoint("GET", f"{ONE}/context-preview", "What the next Turn may hold", read_preview, ContextPreview, query=PreviewQuery,
             errors=_RUNTIME),
)
