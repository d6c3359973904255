"""The closed list of error codes: one class per code, with what a client may do about it.

AgentBuilderError
 |- RequestError      answers of the HTTP interface
 `- RunError          ends of a Run (`run.failed`), raised where the fault is known and caught by runs/run.py alone
"""

from typing import ClassVar


class AgentBuilderError(Exception):
    """`message` is one sentence for the operator: no path, endpoint, prompt text or provider text."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    sentence: ClassVar[str] = "Something went wrong inside Agent Builder."

    def __init__(self, message: str = "", **details: object) -> None:
        self.message = message or self.sentence
        self.details = details
        super().__init__(self.message)


class RequestError(AgentBuilderError):
    """A request that is refused; nothing was changed."""


class RunError(AgentBuilderError):
    """A fault that ends a Run as `run.failed`."""


class InvalidRequest(RequestError):
    code = "invalid_request"
    sentence = "The request is not valid."


class InvalidSessionCursor(RequestError):
    code = "invalid_session_cursor"
    sentence = "This page position is no longer valid; load the Conversation again."


class Unauthenticated(RequestError):
    code = "unauthenticated"
    sentence = "Please log in."


class ForbiddenOrigin(RequestError):
    code = "forbidden_origin"
    sentence = "The request does not come from this page."


class ForbiddenHost(RequestError):
    code = "forbidden_host"
    sentence = "This host name is not allowed."


class CsrfFailed(RequestError):
    code = "csrf_failed"
    sentence = "The page is out of date; reload it and try again."


class ProtectedAgent(RequestError):
    code = "protected_agent"
    sentence = "The system Agent cannot be changed this way."


class NotFound(RequestError):
    code = "not_found"
    sentence = "There is nothing here under this id."


class ConversationBusy(RequestError):
    code = "conversation_busy"
    retryable = True
    sentence = "This Conversation is busy with a Turn; stop it or wait for its end."


class ConversationLimit(RequestError):
    code = "conversation_limit"
    sentence = "There are 100 Conversations; delete some first."


class AgentLimit(RequestError):
    code = "agent_limit"
    sentence = "There are 32 Agents; delete one first."


class IdempotencyMismatch(RequestError):
    code = "idempotency_mismatch"
    sentence = "This client_request_id was used for another message."


class PermissionStale(RequestError):
    code = "permission_stale"
    sentence = "This approval is over or its target has changed."


class AttachmentRefused(RequestError):
    code = "attachment_refused"
    sentence = "A file cannot be attached."


class InstructionsRefused(RequestError):
    code = "instructions_refused"
    sentence = "The workspace instructions cannot be used."


class AgentBusy(RequestError):
    code = "agent_busy"
    retryable = True
    sentence = "The Agent has active Runs; wait for their end."


class TooLarge(RequestError):
    code = "too_large"
    sentence = "The request is too large."


class LoginThrottled(RequestError):
    code = "login_throttled"
    retryable = True
    sentence = "Too many failed logins; wait a little."


class RunLimit(RequestError):
    code = "run_limit"
    retryable = True
    sentence = "Four Runs are active; wait for one to end."


class SubscriberLimit(RequestError):
    code = "subscriber_limit"
    retryable = True
    sentence = "Too many event streams are open."


class Starting(RequestError):
    code = "starting"
    retryable = True
    sentence = "Agent Builder is starting."


class AgentDraining(RequestError):
    code = "agent_draining"
    retryable = True
    sentence = "This Agent is being changed; try again shortly."


class StorageFull(RequestError):
    code = "storage_full"
    retryable = True
    sentence = "The disk or database is full; free some space."


class AgentDamaged(RequestError):
    code = "agent_damaged"
    sentence = "This Agent's database is damaged; nothing was deleted. Restore a backup."


class ModelContextLimit(RunError):
    code = "model_context_limit"
    sentence = "The request does not fit into the model's window, even with all earlier Turns left out."


class ModelContextTooSlow(RunError):
    code = "model_context_too_slow"
    sentence = "At the observed speed the model cannot evaluate this request before the Run's deadline."


class ModelContextTruncated(RunError):
    code = "model_context_truncated"
    sentence = "The model server reported far fewer tokens than were sent; the answer was thrown away."


class ModelBusy(RunError):
    code = "model_busy"
    retryable = True
    sentence = "All model streams are in use; try again."


class ModelTemporarilyUnhealthy(RunError):
    code = "model_temporarily_unhealthy"
    retryable = True
    sentence = "The model did not answer twice in a row; try again in half a minute."


class ModelFirstFrameTimeout(RunError):
    code = "model_first_frame_timeout"
    retryable = True
    sentence = "The model did not begin to answer in time."


class ModelTransport(RunError):
    code = "model_transport"
    retryable = True
    sentence = "The connection to the model broke."


class ModelTransportTimeout(RunError):
    code = "model_transport_timeout"
    retryable = True
    sentence = "The connection to the model could not be opened in time."


class ModelStreamIdleTimeout(RunError):
    code = "model_stream_idle_timeout"
    retryable = True
    sentence = "The model stopped in the middle of its answer."


class ModelTurnDeadline(RunError):
    code = "model_turn_deadline"
    retryable = True
    sentence = "The model's answer took too long."


class ModelUnavailable(RunError):
    code = "model_unavailable"
    retryable = True
    sentence = "The model server cannot be reached."


class ModelProviderError(RunError):
    code = "model_provider_error"
    retryable = True
    sentence = "The model server reported a fault."


class ModelNotFound(RunError):
    code = "model_not_found"
    retryable = True
    sentence = "The model server does not have this model."


class ModelCapabilityMissing(RunError):
    code = "model_capability_missing"
    retryable = True
    sentence = "The model lacks a capability that its catalog entry asks for."


class ModelProtocol(RunError):
    code = "model_protocol"
    retryable = True
    sentence = "The model server's answer could not be understood."


class ModelEmptyAnswer(RunError):
    code = "model_empty_answer"
    retryable = True
    sentence = "The model gave no visible answer."


class ModelThinkingExhausted(RunError):
    code = "model_thinking_exhausted"
    retryable = True
    sentence = "The model spent its whole output on thinking."


class ModelToolLoop(RunError):
    code = "model_tool_loop"
    retryable = True
    sentence = "The model kept calling tools in a way that is not allowed."


class RunDeadline(RunError):
    code = "run_deadline"
    retryable = True
    sentence = "The Run reached its time limit."


class RunTreeLimit(RunError):
    code = "run_tree_limit"
    retryable = True
    sentence = "The Run's private directory grew past its bounds."


class WorkerCrashed(RunError):
    code = "worker_crashed"
    retryable = True
    sentence = "The Worker ended unexpectedly."


class WorkerProtocol(RunError):
    code = "worker_protocol"
    retryable = True
    sentence = "The Worker broke its protocol."


class PermissionExpired(RunError):
    code = "permission_expired"
    retryable = True
    sentence = "No decision was made in time."


class SandboxFailed(RunError):
    code = "sandbox_failed"
    sentence = "The Worker could not be confined."


class Internal(RunError):
    code = "internal"
    retryable = True
    sentence = "Something went wrong inside Agent Builder."


def leaf_classes() -> dict[str, type[AgentBuilderError]]:
    """Every code and its class."""
    return {leaf.code: leaf for kind in (RequestError, RunError) for leaf in kind.__subclasses__()}
