"""A Conversation that exceeds its window several times, on the embedded model: nothing overflows, nothing is cut silently,
the stored transcript stays as it was, and what was said first is still known at the end.

    .venv/bin/python scripts/long_conversation.py [turns] [window]

Prints a line for each Turn and at last what does not hold, or "holds"; ends with 1 then. Takes minutes on a quiet machine.
"""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from agent_builder.context.compiler import render_call  # noqa: E402
from agent_builder.llm.broker import ModelBroker, ModelRequest  # noqa: E402
from agent_builder.llm.catalog import Catalog, load_catalog  # noqa: E402
from agent_builder.llm.models import Models  # noqa: E402
from agent_builder.protocol.ids import new_id  # noqa: E402
from agent_builder.protocol.messages import CompletedTurnContext  # noqa: E402
from agent_builder.protocol.model_profile import ModelProfile, Sampling, Timeouts  # noqa: E402
from agent_builder.storage.conversations import create_conversation  # noqa: E402
from agent_builder.storage.summaries import latest_summary  # noqa: E402
from agent_builder.storage.turns import bundles  # noqa: E402
from tests.support.clock import MovableClock  # noqa: E402
from tests.support.conversing import Conversing, an_admission  # noqa: E402
from tests.support.embedded_model import embedded_server  # noqa: E402
from tests.support.stored import open_state  # noqa: E402

ANSWER_S = 1800
KEY_WORD = "heron-42"
FIRST = f"My key word is {KEY_WORD}. Please remember it. Answer in one sentence."
LAST = "What is my key word? Answer with the key word alone."
TOPICS = ("rivers", "bridges", "clocks", "bread", "maps", "sails", "wells", "looms", "kites", "bells")


async def converse(directory: Path, profile: ModelProfile, turns: int) -> list[str]:
    """The faults."""
    clock = MovableClock()
    models = Models(Catalog(default=profile.model_id, models=(profile,)), clock, directory / "cache")
    workspace = directory / "workspace"
    workspace.mkdir(mode=0o700)
    database = await open_state(directory)
    conversation_id = new_id()
    await database.run(lambda conn: create_conversation(conn, conversation_id, None, clock.now()))
    talk = Conversing(database, models, an_admission(database, models, workspace, clock, True), clock, workspace, conversation_id)
    faults: list[str] = []
    starts = []
    stored: list[CompletedTurnContext] = []
    for number, text in enumerate([FIRST, *map(question, range(2, turns)), LAST], 1):
        start, answer, fault = await ask(talk, number, text)
        starts.append(start)
        faults += [fault] if fault else []
        now = await database.read(lambda conn: bundles(conn, conversation_id))
        faults += ["the stored transcript changed"] if now[:-1] != stored else []
        stored = now
    summary = await database.read(lambda conn: latest_summary(conn, conversation_id))
    print(f"history began anew {len(set(starts)) - 1} times; last summary: {None if summary is None else summary.text!r}")
    if len(set(starts)) < 3:
        faults.append("the window was not exceeded often enough")
    if KEY_WORD not in answer.lower():
        faults.append(f"the key word is forgotten: {answer!r}")
    await models.close()
    await database.close()
    return faults


def question(number: int) -> str:
    return f"Question {number}: what are {TOPICS[number % len(TOPICS)]} good for? Answer in two short plain sentences."


async def ask(talk: Conversing, number: int, text: str) -> tuple[int, str, str | None]:
    """One Turn: where the history began, the answer, and what does not hold."""
    admitted = await talk.admit(text)
    rendered = render_call(admitted.plan, (), with_tools=True, finalize=False, counter=admitted.counter)
    request = ModelRequest(admitted.model, rendered, 1, (), (), False, talk.clock.monotonic() + ANSWER_S)
    answer = await ModelBroker(talk.models, talk.clock).call(request, unheard, unheard, unheard)
    await talk.finish(admitted, answer.text, answer.reason)
    reported = answer.usage.input
    print(f"Turn {number}: from {admitted.plan.start + 1}, counted {rendered.text_tokens}, reported {reported}, bound {rendered.admission_tokens} "
          f"of {admitted.plan.input_budget}: {answer.text[:60]!r}", flush=True)
    fits = rendered.exact and rendered.text_tokens <= reported <= rendered.admission_tokens <= admitted.plan.input_budget
    return admitted.plan.start, answer.text, None if fits else f"Turn {number}: the counts do not agree"


async def unheard(*_: object) -> None:
    """Nobody watches."""


def main() -> int:
    given = [int(value) for value in sys.argv[1:]]
    turns, window = (*given, 40, 2048)[:2] if len(given) != 1 else (given[0], 2048)
    with tempfile.TemporaryDirectory() as name:
        checkout = Path(name) / "checkout"
        checkout.mkdir()
        with embedded_server(checkout, "small") as server:
            profile = replace(
                load_catalog(server.catalog, checkout).models[0], window_cap=window, output_cap=128, tools=False,
                plain_sampling=Sampling(temperature=0.0), timeouts=Timeouts(first_frame_s=600, idle_s=600, call_s=ANSWER_S),
            )
            faults = asyncio.run(converse(Path(name), profile, turns))
    print("; ".join(faults) or "holds")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
