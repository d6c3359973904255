"""The seven slash commands. None calls a model or makes a Turn; two of them only tell the page what to send next."""

import difflib
from dataclasses import dataclass

from agent_builder.agents.registry import AgentView
from agent_builder.agents.runtime import AgentRuntime
from agent_builder.commands.command_types import Said, SlashOutcome
from agent_builder.commands.said import outcome, said
from agent_builder.commands.slash import SlashCommand, SlashRegistry
from agent_builder.conversations.inspection import ContextView
from agent_builder.llm.entries import PublicModel
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
    return outcome(
        said("status_agent", name=scene.agent.name, phase=scene.agent.phase, generation=scene.agent.generation),
        said("status_conversation", title=scene.conversation.title, preparation=state),
        said("status_model", model_id=scene.models.default_id, model_state=scene.models.state),
        said("status_active", count=scene.active.count),
        said("status_waiting", count=len(scene.runtime.permissions.pending())),
    )


async def context(scene: SlashScene, run_id: str | None) -> SlashOutcome:
    wanted = run_id or await _last_run(scene)
    if wanted is None:
        return outcome(said("context_no_run"))
    try:
        if not is_id(wanted):
            raise NotFound
        return outcome(*_context_lines(await scene.runtime.inspection.of(wanted)))
    except NotFound:
        return outcome(said("context_unknown"))


async def model(scene: SlashScene, model_id: str | None) -> SlashOutcome:
    known = scene.models.public()
    if model_id is None:
        return outcome(*(_model_line(one) for one in known))
    names = [one.model_id for one in known]
    if model_id not in names:
        near = difflib.get_close_matches(model_id, names, NEAREST_NAMES, 0.0)
        return outcome(said("model_unknown", nearest=", ".join(near)))
    return outcome(said("model_chosen", model_id=model_id), model_id=model_id)


async def compact(scene: SlashScene, _: str | None) -> SlashOutcome:
    return outcome(said("compact"), compact=True)


async def permissions(scene: SlashScene, _: str | None) -> SlashOutcome:
    pending = scene.runtime.permissions.pending()
    if not pending:
        return outcome(said("permission_none"))
    return outcome(*(
        said("permission", tool_id=one.tool_id, run_id=one.run_id, until=f"{one.expires_at:%H:%M:%S} UTC") for one in pending
    ))


async def cancel(scene: SlashScene, run_id: str | None) -> SlashOutcome:
    wanted = run_id or scene.conversation.running_run_id
    run = scene.active.get(wanted) if wanted else None
    if run is None or run.identity.agent_id != scene.agent.agent_id or not run.cancel():
        return outcome(said("cancel_none"))
    return outcome(said("cancel_asked", run_id=wanted))


async def clear(scene: SlashScene, _: str | None) -> SlashOutcome:
    return outcome(said("clear"), model_id=scene.models.default_id, compact=False)


def _model_line(one: PublicModel) -> Said:
    code = ("model" if one.available else "model_off") + ("_default" if one.default else "")
    return said(code, model_id=one.model_id, label=one.label, reason=one.reason, reason_code=one.reason_code)


def _context_lines(view: ContextView) -> list[Said]:
    if view.source == "none":
        return [said("context_none", run_id=view.run_id)]
    lines = [
        said("context_run", run_id=view.run_id, model_id=view.model_id),
        said("context_window", window=view.window, input_budget=view.input_budget, admission_tokens=view.admission_tokens),
    ]
    if view.history is not None:
        past = view.history
        lines.append(said("context_history", included=past.included, collapsed=past.collapsed, omitted=past.omitted))
    return lines + [
        said("context_section", index=one.index, name=one.name, trust=one.trust, tokens=one.tokens) for one in view.sections or ()
    ]


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
