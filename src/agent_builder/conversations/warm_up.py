"""The beginning that all requests of an Agent share, as a request of its own: sent when a model is loaded, so that the
first real message is all that is left to evaluate. Also the proof that a model can hold an ordinary message at all.
"""

import asyncio
from datetime import date
from pathlib import Path

from agent_builder.capsule.instructions import read_instructions
from agent_builder.context.compiler import compile_plan, render_call
from agent_builder.context.inputs import PlanInputs
from agent_builder.conversations.planning import offered_tools
from agent_builder.protocol.errors import InstructionsRefused, ModelContextLimit
from agent_builder.protocol.limits import QUALIFICATION_MESSAGE_BYTES
from agent_builder.protocol.model_profile import QualifiedModel
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.request import RenderedRequest, TokenCounter

WARM_UP_MESSAGE = "."
_SENTENCE = "An ordinary message of a few words. "


async def warm_up_request(workspace: Path, model: QualifiedModel, counter: TokenCounter, clock: Clock) -> RenderedRequest:
    """Without instructions where the file cannot be used: a Run would be refused then anyway."""
    try:
        instructions = await asyncio.to_thread(read_instructions, workspace)
        text = None if instructions is None else instructions.text
        return await asyncio.to_thread(prefix_request, model, counter, text, clock.now().date())
    except InstructionsRefused:
        return await asyncio.to_thread(prefix_request, model, counter, None, clock.now().date())


def prefix_request(model: QualifiedModel, counter: TokenCounter, instructions: str | None, today: date) -> RenderedRequest:
    """Raises InstructionsRefused, ModelContextLimit."""
    inputs = PlanInputs(model=model, toolset=offered_tools(model), today=today, user_text=WARM_UP_MESSAGE, instructions=instructions)
    return render_call(compile_plan(inputs, counter), (), with_tools=True, finalize=False, counter=counter)


def window_fault(model: QualifiedModel, counter: TokenCounter) -> str | None:
    """Why this model cannot be used: a message of QUALIFICATION_MESSAGE_BYTES with the whole toolset does not fit. None
    when it does."""
    message = (_SENTENCE * QUALIFICATION_MESSAGE_BYTES)[:QUALIFICATION_MESSAGE_BYTES]
    inputs = PlanInputs(model=model, toolset=offered_tools(model), today=date.max, user_text=message)
    try:
        compile_plan(inputs, counter)
    except ModelContextLimit as limit:
        return (
            f"a message of {QUALIFICATION_MESSAGE_BYTES} bytes with all tools needs {limit.details['needed']} tokens of "
            f"{limit.details['allowed']} free ones; the window is too small"
        )
    return None
