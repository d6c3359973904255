"""A Conversation that exceeds its window several times, through a real Gateway with an embedded model: nothing overflows,
nothing is cut silently, the stored transcript stays as it was, and what was said first is still known at the end.

    .venv/bin/python scripts/long_conversation.py [--model small|base] [--turns 40] [--window 2048] [--tools]

Prints a line for each Turn, at last what does not hold, or "holds"; ends with 1 then. Takes minutes on a quiet machine.
"""

import argparse
import asyncio
import sqlite3
import sys
import tempfile
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.support.embedded_gateway import embedded_gateway  # noqa: E402
from tests.support.gateway import Gateway, RunResult  # noqa: E402

LEAST_COMPACTIONS = 3
KEY_WORD = "heron-42"
FIRST = f"My key word is {KEY_WORD}. Please remember it. Answer in one sentence."
LAST = "What is my key word? Answer with the key word alone."
TOPICS = ("rivers", "bridges", "clocks", "bread", "maps", "sails", "wells", "looms", "kites", "bells")
FEATURES = ("their history", "their use", "how they are made", "what can go wrong with them", "what they cost")


def question(number: int) -> str:
    topic, feature = TOPICS[number % len(TOPICS)], FEATURES[number // len(TOPICS) % len(FEATURES)]
    return f"Question {number}: tell me about {topic}, {feature}. Answer in three plain sentences."


async def converse(gateway: Gateway, turns: int) -> list[str]:
    """The faults."""
    conversation = await gateway.new_conversation()
    faults: list[str] = []
    starts: list[int] = []
    stored: list[tuple[object, ...]] = []
    for number, text in enumerate([FIRST, *map(question, range(2, turns)), LAST], 1):
        run = await gateway.run(conversation, text)
        begins, found = judge(number, run)
        starts.append(begins)
        faults += found
        now = transcript(gateway)
        faults += [f"Turn {number}: the stored transcript changed"] if now[:-1] != stored else []
        stored = now
    compactions = len(set(starts)) - 1
    print(f"history began anew {compactions} times; summaries: {summaries(gateway)}")
    if compactions < LEAST_COMPACTIONS:
        faults.append("the window was not exceeded often enough")
    if KEY_WORD not in run.text.lower():
        faults.append(f"the key word is forgotten: {run.text!r}")
    return faults


def judge(number: int, run: RunResult) -> tuple[int, list[str]]:
    """With which Turn the history began, and what does not hold of this one."""
    if run.terminal["type"] != "run.completed":
        return 0, [f"Turn {number}: {run.terminal['payload']}"]
    started, calls = run.of("run.started")[0], run.of("model.response.finished")
    begins = started["history_omitted"] + started["history_collapsed"] + 1
    used, bound, budget = calls[0]["usage"]["input"], started["admission_tokens"], started["input_budget"]
    print(f"Turn {number}: history from {begins}, {started['history_collapsed']} in notes; {used} tokens, bound {bound}, "
          f"budget {budget}; {len(calls)} calls: {run.text[:60]!r}", flush=True)
    faults = [] if 0 < used <= bound <= budget else [f"Turn {number}: {used} tokens, bound {bound}, budget {budget}"]
    faults += [f"Turn {number}: the request had to be made smaller"] if run.of("model.recovery.started") else []
    faults += [f"Turn {number}: usage is incomplete"] if not all(call["usage"]["complete"] for call in calls) else []
    return begins, faults


def transcript(gateway: Gateway) -> list[tuple[object, ...]]:
    """Every Turn as it is stored."""
    return ask_database(gateway, "SELECT turn_id, state, user_text, assistant_text, bundle FROM turns JOIN bundles ON turn = turns.key ORDER BY turns.key")


def summaries(gateway: Gateway) -> list[tuple[object, ...]]:
    return ask_database(gateway, "SELECT covered_turns, text FROM summaries ORDER BY key")


def ask_database(gateway: Gateway, query: str) -> list[tuple[object, ...]]:
    found = sqlite3.connect(f"file:{gateway.workspace.parent / 'state.sqlite'}?mode=ro", uri=True)
    try:
        return found.execute(query).fetchall()
    finally:
        found.close()


def catalog_of(text: str, window: int, tools: bool) -> str:
    """The server's own catalog with a small window and short answers."""
    lines = [line for line in text.splitlines() if not line.startswith(("window_cap", "output_cap", "tools"))]
    at = next(index for index, line in enumerate(lines) if line.startswith("provider_model"))
    lines[at + 1 : at + 1] = [f"window_cap = {window}", "output_cap = 256", f"tools = {str(tools).lower()}"]
    return "\n".join(lines)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("small", "base"), default="small")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--window", type=int, default=2048)
    parser.add_argument("--tools", action="store_true", help="offer them; needs a window of 3072 at least")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        change = partial(catalog_of, window=given.window, tools=given.tools)
        async with embedded_gateway(Path(name), given.model, change=change) as gateway:
            faults = await converse(gateway, given.turns)
    print("; ".join(faults) or "holds")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
