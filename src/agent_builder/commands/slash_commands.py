"""The seven slash commands. None calls a model or makes a Turn; two of them only tell the page what to send next."""

import difflib
from dataclasses import dataclass

from agent_builder.agents.registry import AgentView
from agent_builder.agents.runtime import AgentRuntime
from agent_builder.commands.command_types import SlashOutcome
from agent_builder.commands.slash import SlashCommand, SlashRegistry
from agent_builder.conversations.inspection import ContextView
from agent_builder.llm.models import Models
from agent_builder.protocol.errors import NotFound
from agent_builder.protocol.ids import is_id
from agent_builder.protocol.limits import NEAREST_NAMES
from agent_builder.runs.active import ActiveRuns
from agent_builder.storage.conversations import ConversationRow
from agent_builder.storage.turns import turn_page


@dataclass(frozen=True, slots=True)
class SlashScene:
    """Where a command was typed, and what it may look at."""

    agent: AgentView
    runtime: AgentRuntime
    conversation: ConversationRow
    models: Models
    active: ActiveRuns


async def status(scene: SlashScene, _: str | None) -> SlashOutcome:
    engine = await scene.runtime.engines.get(scene.conversation.conversation_id)
    state, _operation = engine.preparation()
    return SlashOutcome("\n".join((
        f"Agent: {scene.agent.name} ({scene.agent.phase}, generation {scene.agent.generation})",
        f"Conversation: {scene.conversation.title}, {state}",
        f"Model: {scene.models.default_id} ({scene.models.state})",
        f"Active Runs: {scene.active.count}",
        f"Waiting for a decision: {len(scene.runtime.permissions.pending())}",
    )))


async def context(scene: SlashScene, run_id: str | None) -> SlashOutcome:
    wanted = run_id or await _last_run(scene)
    if wanted is None:
        return SlashOutcome("This Conversation has no Run yet.")
    try:
        if not is_id(wanted):
            raise NotFound
        return SlashOutcome(_context_text(await scene.runtime.inspection.of(wanted)))
    except NotFound:
        return SlashOutcome("This Agent has no such Run.")


async def model(scene: SlashScene, model_id: str | None) -> SlashOutcome:
    known = scene.models.public()
    if model_id is None:
        return SlashOutcome("\n".join(
            f"{one.model_id}: {one.label}{' (default)' if one.default else ''}{'' if one.available else f', not available: {one.reason}'}"
            for one in known
        ))
    names = [one.model_id for one in known]
    if model_id not in names:
        near = difflib.get_close_matches(model_id, names, NEAREST_NAMES, 0.0)
        return SlashOutcome(f"There is no such model. Nearest: {', '.join(near)}")
    return SlashOutcome(f"The next message goes to {model_id}.", model_id=model_id)


async def compact(scene: SlashScene, _: str | None) -> SlashOutcome:
    return SlashOutcome("Earlier Turns are made shorter for the model before the next message. Nothing is deleted.", compact=True)


async def permissions(scene: SlashScene, _: str | None) -> SlashOutcome:
    pending = scene.runtime.permissions.pending()
    if not pending:
        return SlashOutcome("Nothing waits for your decision.")
    return SlashOutcome("\n".join(f"{one.tool_id} of Run {one.run_id}, until {one.expires_at:%H:%M:%S} UTC" for one in pending))


async def cancel(scene: SlashScene, run_id: str | None) -> SlashOutcome:
    wanted = run_id or scene.conversation.running_run_id
    run = scene.active.get(wanted) if wanted else None
    if run is None or run.identity.agent_id != scene.agent.agent_id or not run.cancel():
        return SlashOutcome("There is no active Run to cancel.")
    return SlashOutcome(f"Run {wanted} is asked to stop.")


async def clear(scene: SlashScene, _: str | None) -> SlashOutcome:
    return SlashOutcome(
        "Model and compaction for the next message are back to the defaults. The Conversation is unchanged.",
        model_id=scene.models.default_id, compact=False,
    )


def _context_text(view: ContextView) -> str:
    if view.source == "none":
        return f"Run {view.run_id} was never admitted."
    lines = [
        f"Run {view.run_id}, model {view.model_id}",
        f"Window {view.window} tokens, for the request {view.input_budget}, admitted {view.admission_tokens}",
    ]
    if view.history is not None:
        lines.append(f"Earlier Turns: {view.history.included} whole, {view.history.collapsed} in notes, {view.history.omitted} left out")
    lines += [f"{one.index}. {one.name} ({one.trust}): {one.tokens} tokens" for one in view.sections or ()]
    return "\n".join(lines)


async def _last_run(scene: SlashScene) -> str | None:
    conversation_id = scene.conversation.conversation_id
    turns, _ = await scene.runtime.database.read(lambda conn: turn_page(conn, conversation_id, None, 1))
    return turns[-1].run_id if turns else None


_RUN_ID = (("type", "string"), ("format", "uuid"))
_MODEL_ID = (("type", "string"),)

SLASH_COMMANDS: SlashRegistry[SlashScene] = SlashRegistry((
    SlashCommand("status", (), "Shows the Agent, this Conversation, the model and what is active.", status),
    SlashCommand("context", ("ctx",), "Shows what a Run's context was made of; without an id, of the last Run here.", context,
                 "run_id", _RUN_ID),
    SlashCommand("model", (), "Chooses the model of the next message; without a name, lists the models.", model, "model_id", _MODEL_ID),
    SlashCommand("compact", (), "Makes earlier Turns shorter for the model before the next message.", compact),
    SlashCommand("permissions", ("perms",), "Shows what waits for your decision.", permissions),
    SlashCommand("cancel", ("stop",), "Stops a Run; without an id, the one of this Conversation.", cancel, "run_id", _RUN_ID),
    SlashCommand("clear", (), "Puts the options of the next message back to their defaults.", clear),
))
