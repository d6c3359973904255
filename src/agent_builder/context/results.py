"""What the model sees of tool results, and what of a whole Turn is kept for later requests. Text that is left out is
replaced by a deterministic receipt."""

from collections.abc import Sequence

from agent_builder.context.instructions import FINALIZATION_MARKER
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.limits import (
    BUNDLE_BYTES,
    RECEIPT_BYTES,
    TOOL_CALLS,
    TOOL_RESULT_BYTES_PER_EXTRA_CALL,
    TOOL_RESULT_BYTES_PER_RUN,
)
from agent_builder.protocol.messages import CompletedTurnContext, Exchange, ToolExchange


def result_budget(tool_calls: int) -> int:
    """Bytes of tool results that a Run with this tool budget may show."""
    return TOOL_RESULT_BYTES_PER_RUN + TOOL_RESULT_BYTES_PER_EXTRA_CALL * max(0, tool_calls - TOOL_CALLS)


def project_result(call_id: str, text: str, bytes_left: int, *, reason: str = "run_result_bound") -> str:
    """`text` if it fits into `bytes_left`, else its beginning and a receipt, together within `bytes_left`; where not even
    that has room, the receipt alone."""
    data = text.encode()
    if len(data) <= max(0, bytes_left):
        return text
    receipt = result_receipt(call_id, data, reason)
    room = bytes_left - len(receipt.encode()) - 1
    kept = data[:room].decode(errors="ignore") if room > 0 else ""
    return f"{kept}\n{receipt}" if kept else receipt


def result_receipt(call_id: str, data: bytes, reason: str) -> str:
    """Stands where text was left out."""
    receipt = f"[shortened: call {call_id}, {len(data)} bytes, sha256 {digest_bytes(data)}, reason {reason}]"
    return receipt[:RECEIPT_BYTES]


def completed_bundle(
    turn_id: str, user_text: str, preface: str, exchanges: Sequence[Exchange], answer: str, *, finalized: bool
) -> CompletedTurnContext:
    """The bundle of a Turn that ended well. `finalized`: the last request ended with the finalization marker; the bundle
    then keeps it, since later requests must repeat this one exactly. Beside message and answer at most BUNDLE_BYTES are kept."""
    kept = [*exchanges, Exchange(correction=FINALIZATION_MARKER)] if finalized else list(exchanges)
    room = BUNDLE_BYTES - len(preface.encode()) - sum(_fixed_bytes(exchange) for exchange in kept)
    bounded = []
    for exchange in kept:
        calls = []
        for call in exchange.calls:
            result = project_result(call.call_id, call.result, room, reason="turn_bound")
            room -= len(result.encode())
            calls.append(call if result == call.result else call.model_copy(update={"result": result}))
        bounded.append(exchange.model_copy(update={"calls": tuple(calls)}))
    return CompletedTurnContext(turn_id=turn_id, user_text=user_text, preface=preface, exchanges=tuple(bounded), answer=answer)


def _fixed_bytes(exchange: Exchange) -> int:
    """What cannot be shortened without changing its meaning: words, corrections and arguments."""
    words = len(exchange.text.encode()) + len((exchange.correction or "").encode())
    return words + sum(_argument_bytes(call) for call in exchange.calls)


def _argument_bytes(call: ToolExchange) -> int:
    return sum(len(str(name).encode()) + len(str(value).encode()) for name, value in call.arguments.items())
