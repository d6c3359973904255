"""The beginning that all requests of an Agent share, as a request of its own: sent when a model is loaded, so that the
first real message is all that is left to evaluate.
"""

import asyncio
from datetime import date
from pathlib import Path

from agent_builder.capsule.instructions import read_instructions
from agent_builder.context.compiler import compile_plan, render_call
from agent_builder.context.inputs import NOTHING_AROUND, PlanInputs, Surroundings
from agent_builder.conversations.planning import offered_tools
from agent_builder.protocol.errors import InstructionsRefused
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest, TokenCounter

WARM_UP_MESSAGE = "."


async def warm_up_request(
    workspace: Path, model: QualifiedModel, counter: TokenCounter, clock: Clock, around: Surroundings = NOTHING_AROUND
) -> RenderedRequest:
    """Without instructions where the file cannot be used: a Run would be refused then anyway."""
    try:
        instructions = await asyncio.to_thread(read_instructions, workspace)
        text = None if instructions is None else instructions.text
        return await asyncio.to_thread(prefix_request, model, counter, text, clock.now().date(), around)
    except InstructionsRefused:
        return await asyncio.to_thread(prefix_request, model, counter, None, clock.now().date(), around)


def prefix_request(
    model: QualifiedModel, counter: TokenCounter, instructions: str | None, today: date, around: Surroundings = NOTHING_AROUND
) -> RenderedRequest:
    """Raises InstructionsRefused, ModelContextLimit."""
    inputs = PlanInputs(
        model=model, toolset=offered_tools(model, around), today=today, user_text=WARM_UP_MESSAGE, instructions=instructions, around=around.lines
    )
    return render_call(compile_plan(inputs, counter), (), with_tools=True, finalize=False, counter=counter)
