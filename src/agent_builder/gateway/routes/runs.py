"""Runs: start, follow, cancel, replay, and what their context was."""

from starlette.types import ASGIApp

from agent_builder.commands.command_types import CancelRun, SubmitTurn
from agent_builder.conversations.engine import Submission
from agent_builder.conversations.inspection import ContextView, RevealedSection
from agent_builder.gateway.answers import AcceptedAnswer, EventsAnswer, OutcomeAnswer
from agent_builder.gateway.bodies import ReplayQuery, RevealBody, SubmitBody
from agent_builder.gateway.endpoint import Call, Endpoint, HeaderRule, reply
from agent_builder.gateway.replay import read_page
from agent_builder.gateway.routes.agents import ONE as AGENT
from agent_builder.gateway.routes.sessions import ONE as CONVERSATION
from agent_builder.protocol.errors import (
    AgentDamaged,
    AgentDraining,
    AttachmentRefused,
    ConversationBusy,
    IdempotencyMismatch,
    InstructionsRefused,
    LoginThrottled,
    NotFound,
    RunLimit,
    StorageFull,
    Unauthenticated,
)
from agent_builder.protocol.events import (
    PermissionRequested,
    PermissionResolved,
    RunStarted,
    ToolCallFinished,
    ToolCallProposed,
    ToolCallStarted,
)

ONE = f"{AGENT}/runs/{{run_id}}"
AUDIT_TYPES = tuple(
    kind.type for kind in (RunStarted, ToolCallProposed, PermissionRequested, PermissionResolved, ToolCallStarted, ToolCallFinished)
)
_RUNTIME = (AgentDraining, AgentDamaged)


async def submit(call: Call) -> ASGIApp:
    body = call.sent(SubmitBody)
    submission = Submission(
        message=body.message, attachments=tuple(body.attachments), model_id=body.model_id, compact=body.compact,
        client_request_id=body.client_request_id,
    )
    accepted = await call.services.bus.dispatch(SubmitTurn(call.agent_id, call.conversation_id, submission))
    answer = AcceptedAnswer(turn_id=accepted.turn_id, run_id=accepted.run_id, operation_id=accepted.operation_id)
    return reply(answer, 202)


async def cancel(call: Call) -> ASGIApp:
    outcome = await call.services.bus.dispatch(CancelRun(call.agent_id, call.run_id))
    return reply(OutcomeAnswer(outcome=outcome), 202)


async def replay(call: Call) -> ASGIApp:
    return await _events(call, None)


async def audit(call: Call) -> ASGIApp:
    return await _events(call, AUDIT_TYPES)


async def read_context(call: Call) -> ASGIApp:
    return reply(await (await call.runtime()).inspection.of(call.run_id))


async def reveal(call: Call) -> ASGIApp:
    """For a shell, never for a page: it takes a secret of its own, and each try counts like a login."""
    token = call.services.reveal_token
    if token is None:
        raise NotFound("The diagnostic reveal is off.")
    await call.door.throttle.admit(call.peer)
    if not token.matches(call.header(b"x-context-reveal-token") or ""):
        call.door.throttle.failed(call.peer)
        raise Unauthenticated("This reveal token is not right.")
    return reply(await (await call.runtime()).inspection.reveal(call.run_id, call.sent(RevealBody).section))


async def _events(call: Call, types: tuple[str, ...] | None) -> ASGIApp:
    asked = call.sent(ReplayQuery)
    events, more = await read_page((await call.runtime()).database, call.run_id, asked.after_seq, asked.limit, types)
    return reply(EventsAnswer(items=events, next_after_seq=events[-1].seq if more else None))


ENDPOINTS = (
    Endpoint("POST", f"{CONVERSATION}/runs", "Send a message: start the next Turn", submit, AcceptedAnswer, 202, body=SubmitBody,
             errors=(*_RUNTIME, StorageFull, ConversationBusy, IdempotencyMismatch, AttachmentRefused, InstructionsRefused, RunLimit)),
    Endpoint("POST", f"{ONE}/cancel", "Ask for the end of a Run", cancel, OutcomeAnswer, 202, errors=_RUNTIME),
    Endpoint("GET", f"{ONE}/replay", "Read durable events", replay, EventsAnswer, query=ReplayQuery, errors=_RUNTIME),
    Endpoint("GET", f"{ONE}/capability-audit", "Read the durable events of tools and approvals", audit, EventsAnswer,
             query=ReplayQuery, errors=_RUNTIME),
    Endpoint("GET", f"{ONE}/context", "Read what a Run's context was made of, never its text", read_context, ContextView,
             errors=_RUNTIME),
    Endpoint("POST", f"{ONE}/context/reveal", "Diagnostic reveal of one section", reveal, RevealedSection, body=RevealBody,
             errors=(*_RUNTIME, Unauthenticated, LoginThrottled), headers=(HeaderRule("X-Context-Reveal-Token", "The secret of its own file"),)),
)
