"""Cost of planning, in this process: what a Turn with a long history adds."""

import time
from collections.abc import Callable
from datetime import date

from bench_report import MS, Row

from agent_builder.context.compiler import compile_plan, render_call
from agent_builder.context.estimate import BYTES_COUNTER
from agent_builder.context.inputs import PlanInputs
from agent_builder.context.toolset import resolve_toolset
from agent_builder.protocol.messages import CompletedTurnContext
from agent_builder.protocol.model_profile import ModelProfile, QualifiedModel
from agent_builder.protocol.tool_catalog import CATALOG

TURNS = 1000
WINDOW = 32768


def rows(repeats: int) -> list[Row]:
    fresh, again, calls = [], [], []
    for number in range(repeats):
        asked = inputs(number)
        fresh.append(_ms(lambda asked=asked: compile_plan(asked, BYTES_COUNTER)))
        again.append(_ms(lambda asked=asked: compile_plan(asked, BYTES_COUNTER)))
        plan = compile_plan(asked, BYTES_COUNTER)
        calls.append(_ms(lambda plan=plan: render_call(plan, (), with_tools=True, finalize=False, counter=BYTES_COUNTER)))
    return [
        Row(f"compile a plan with {TURNS:,} Turns, none seen before", "ms", fresh),
        Row("the same again, as on the next Turn", "ms", again),
        Row("added per model call (rendering)", "ms", calls),
    ]


def inputs(salt: int) -> PlanInputs:
    """A Conversation of which only the newest part fits. `salt` makes its texts differ from those of any other."""
    profile = ModelProfile(model_id="bench", label="Benchmark", endpoint="http://provider", provider_model="bench:1b")
    model = QualifiedModel(
        profile=profile, digest="d" * 64, capabilities=("completion", "tools"), native_window=WINDOW, window=WINDOW, output_reserve=4096,
        tools=True, estimator=BYTES_COUNTER.name,
    )
    history = tuple(
        CompletedTurnContext(turn_id=f"{salt}-{number}", user_text=f"Question {number} of {salt}?", answer=f"Answer {number} of {salt}. " * 20)
        for number in range(TURNS)
    )
    return PlanInputs(
        model=model, toolset=resolve_toolset(CATALOG, model, budget=2), today=date(2026, 11, 30), user_text="And now?", history=history,
    )


def _ms(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return (time.monotonic() - began) * MS
