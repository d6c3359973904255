"""What slash commands say: one sentence per line, in English and under a code by which a page says it in its own language."""

from collections.abc import Mapping

from agent_builder.commands.command_types import Said, SlashOutcome

SENTENCES: Mapping[str, str] = {
    "cancel_asked": "Run {run_id} is asked to stop.",
    "cancel_none": "There is no active Run to cancel.",
    "clear": "Model and compaction for the next message are back to the defaults. The Conversation is unchanged.",
    "compact": "Earlier Turns are made shorter for the model before the next message. Nothing is deleted.",
    "context_history": "Earlier Turns: {included} whole, {collapsed} in notes, {omitted} left out",
    "context_no_run": "This Conversation has no Run yet.",
    "context_none": "Run {run_id} was never admitted.",
    "context_run": "Run {run_id}, model {model_id}",
    "context_section": "{index}. {name} ({trust}): {tokens} tokens",
    "context_unknown": "This Agent has no such Run.",
    "context_window": "Window {window} tokens, for the request {input_budget}, admitted {admission_tokens}",
    "model": "{model_id}: {label}",
    "model_chosen": "The next message goes to {model_id}.",
    "model_default": "{model_id}: {label} (default)",
    "model_off": "{model_id}: {label}, not available: {reason}",
    "model_off_default": "{model_id}: {label} (default), not available: {reason}",
    "model_unknown": "There is no such model. Nearest: {nearest}",
    "permission": "{tool_id} of Run {run_id}, until {until}",
    "permission_none": "Nothing waits for your decision.",
    "status_active": "Active Runs: {count}",
    "status_agent": "Agent: {name} ({phase}, generation {generation})",
    "status_conversation": "Conversation: {title}, {preparation}",
    "status_model": "Model: {model_id} ({model_state})",
    "status_waiting": "Waiting for a decision: {count}",
    "unknown": "There is no command /{name}. Nearest: {nearest}",
    "usage": "Usage: {usage}",
}
"""Every code but `help_<name>`, which stands for the help of the command of that name."""


def said(code: str, **values: str | int | None) -> Said:
    """One line. Values that are left out or None stand as nothing."""
    known = {name: value for name, value in values.items() if value is not None}
    return Said(code, known, SENTENCES[code].format_map(_Blanks(known)))


def outcome(*lines: Said, model_id: str | None = None, compact: bool | None = None) -> SlashOutcome:
    return SlashOutcome("\n".join(line.text for line in lines), model_id, compact, lines)


class _Blanks(dict[str, str | int]):
    def __missing__(self, name: str) -> str:
        return "–"
