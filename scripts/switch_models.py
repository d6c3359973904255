"""One Conversation that goes from model to model: the three embedded ones side by side in one catalog, through a real Gateway.

    .venv/bin/python scripts/switch_models.py [--models base,small,smollm2] [--rounds 2]

Prints a line for each Turn, at last what does not hold, or "holds"; ends with 1 then. Takes minutes on a quiet machine.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.support.embedded_gateway import embedded_gateway  # noqa: E402
from tests.support.gateway import Gateway, Json, RunResult  # noqa: E402

BIRD = "heron"


async def converse(gateway: Gateway, rounds: int) -> list[str]:
    """The faults."""
    models = (await gateway.ok("GET", "/api/models"))["items"]
    faults = [f"{model['model_id']} is not available: {model['reason']}" for model in models if not model["available"]]
    conversation = await gateway.new_conversation()
    texts = [f"My favourite bird is the {BIRD}. Reply with one word: ok."]
    for turn in range(rounds * len(models)):
        model = models[turn % len(models)]
        if turn == len(models):
            await gateway.restart()
        run = await gateway.run(conversation, texts.pop() if texts else "Which bird is my favourite? Answer in one word.", model_id=model["model_id"])
        faults += judge(model, run, await gateway.ok("GET", f"{gateway.agent}/runs/{run.run_id}/context"))
    return faults


def judge(model: Json, run: RunResult, context: Json) -> list[str]:
    """What does not hold of one Turn. Whether the bird was known is printed and judged for no model."""
    name = model["model_id"]
    if run.terminal["type"] != "run.completed":
        return [f"{name}: {run.terminal['payload']}"]
    used, bound = run.of("model.response.finished")[0]["usage"]["input"], run.of("run.started")[0]["admission_tokens"]
    stages = [payload["stage"] for payload in run.of("run.stage")]
    print(f"{name}: {used} tokens, bound {bound}, {context['estimator']}, {len(context['tools'])} tools; "
          f"{'loaded anew; ' if 'loading_model' in stages else ''}{run.text[:60]!r}", flush=True)
    faults = [] if 0 < used <= bound else [f"{name}: {used} tokens, bound {bound}"]
    faults += [] if bool(context["tools"]) == ("tools" in model["capabilities"]) else [f"{name}: tools {context['tools']}"]
    return faults + ([] if run.of("run.started")[0]["model_id"] == name else [f"{name} did not answer"])


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="base,small,smollm2")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        async with embedded_gateway(Path(name), *given.models.split(",")) as gateway:
            faults = await converse(gateway, given.rounds)
    print("; ".join(faults) or "holds")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
