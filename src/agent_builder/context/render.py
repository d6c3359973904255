"""Provider messages, in Ollama's chat shape. Everything here depends only on its arguments, so that a past Turn is
rendered in later requests byte for byte as it was in its own, and a provider can reuse what it has evaluated.
"""

import json
from collections.abc import Iterator, Sequence

from agent_builder.context.costs import Message
from agent_builder.context.instructions import NOTES_HEAD, NOTES_REPLY, PREFACE_HEAD
from agent_builder.protocol.digest import digest_bytes
from agent_builder.protocol.messages import Attachment, CompletedTurnContext, Exchange, ToolExchange

RENDERER = "ollama-chat-v1"
_GIT = "git status"


def system_message(texts: Sequence[str]) -> Message:
    """All trusted sections: some templates take only one system message, and only at the front."""
    return {"role": "system", "content": "\n\n".join(texts)}


def user_message(text: str, preface: str = "") -> Message:
    return {"role": "user", "content": f"{text}\n\n{preface}" if preface else text}


def note_messages(notes: str) -> tuple[Message, ...]:
    """Notes on earlier Turns, with a reply, so that user and assistant still alternate."""
    return user_message(f"{NOTES_HEAD}\n{fenced('notes', notes)}"), _assistant(NOTES_REPLY)


def turn_messages(bundle: CompletedTurnContext) -> tuple[Message, ...]:
    return (user_message(bundle.user_text, bundle.preface), *exchange_messages(bundle.exchanges), _assistant(bundle.answer))


def exchange_messages(exchanges: Sequence[Exchange]) -> tuple[Message, ...]:
    """Calls with their results directly behind them, one per call; corrections behind the answer that they correct."""
    return tuple(message for exchange in exchanges for message in _exchange(exchange))


def _exchange(exchange: Exchange) -> Iterator[Message]:
    if exchange.calls:
        yield _assistant(exchange.text, exchange.calls)
        for call in exchange.calls:
            yield {"role": "tool", "tool_name": _name(call), "tool_call_id": call.call_id, "content": call.result or "(no output)"}
    elif exchange.text and exchange.correction is not None:
        yield _assistant(exchange.text)
    if exchange.correction is not None:
        yield user_message(exchange.correction)


def _assistant(text: str, calls: Sequence[ToolExchange] = ()) -> Message:
    if not calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text, "tool_calls": [_call(index, call) for index, call in enumerate(calls)]}


def _call(index: int, call: ToolExchange) -> Message:
    arguments = {name: call.arguments[name] for name in sorted(call.arguments)}
    return {"id": call.call_id, "function": {"index": index, "name": _name(call), "arguments": arguments}}


def _name(call: ToolExchange) -> str:
    return call.tool_id.replace("/", "_")


def preface_of(attachments: Sequence[Attachment], git_status: str | None, *, tools: bool) -> str:
    """What stands behind this Turn's message: untrusted data, each part between marks that its content cannot forge. With
    `tools` a part of a file says how to read on."""
    parts = [attachment_block(one, tools=tools) for one in attachments]
    if git_status is not None:
        parts.append(git_block(git_status))
    return "\n".join([PREFACE_HEAD, *parts]) if parts else ""


def attachment_block(attachment: Attachment, *, tools: bool) -> str:
    part = _part(attachment, tools=tools) if attachment.truncated else ""
    return fenced(f"file {attachment.path}, {attachment.bytes} bytes{part}", attachment.text)


def _part(attachment: Attachment, *, tools: bool) -> str:
    """Which part of the file was attached, and the one call that gives the next."""
    text = attachment.text
    if not text.endswith("\n"):
        return f", only the first {len(text.encode())} bytes, since line 1 is too long to be shown whole"
    lines = text.count("\n")
    part = f", only lines 1-{lines}"
    if not tools:
        return part
    arguments = json.dumps({"path": attachment.path, "start_line": lines + 1}, ensure_ascii=False)
    return f"{part}; for more call file_read_text with {arguments}"


def git_block(status: str) -> str:
    return fenced(_GIT, status or "(clean)")


def last_git_block(bundles: Sequence[CompletedTurnContext]) -> str | None:
    """The newest preface that has a git status, or None when the model was never shown one."""
    return next((bundle.preface for bundle in reversed(bundles) if f"--- {_GIT} " in bundle.preface), None)


def fenced(name: str, text: str) -> str:
    """Data between marks. A mark is made of the text's own digest, which no text can contain."""
    mark = digest_bytes(text.encode())[:8]
    return f"--- {name} {mark} ---\n{text}\n--- end {mark} ---"
