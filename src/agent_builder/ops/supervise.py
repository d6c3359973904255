"""Command line behind start.sh and stop.sh.

Exit: 0 done (also: was running already, was stopped already) · 1 failed · 2 wrong argument · 4 the port is in use ·
5 a record named a process that is not ours: it was left alone · 75 another start or stop is busy.
"""

import argparse
import sys
from pathlib import Path
from typing import Never

from agent_builder.ops import starting, stopping
from agent_builder.ops.local_mode import LocalMode, LocalModelUnavailable, parse_modes
from agent_builder.ops.outcome import Refused
from agent_builder.protocol.checkout import Checkout

START_HELP = """usage: ./start.sh [--local-model [base|small|base,small]] [--model-file PATH.gguf] [--no-local-model]

Starts Agent Builder and returns when it is ready; bootstraps first where needed. Without an argument it uses the recorded
local model, or else the Ollama that config/models.toml names.
  --local-model        serve a model from this machine: base (Qwen2.5-Coder 1.5B, the default) or small (0.5B); remembered
  --model-file PATH    with --local-model: serve weights you already have
  --no-local-model     forget the recorded local model
environment: AGENT_BUILDER_HOST (0.0.0.0) · AGENT_BUILDER_PORT (20815) · AGENT_BUILDER_MODEL_CATALOG (config/models.toml) ·
  AGENT_BUILDER_ALLOWED_HOSTS · AGENT_BUILDER_DOWNLOADS (a folder of wheels that is looked into first)
exit: 0 running · 1 failed, nothing is left behind · 2 wrong argument · 3 the machine lacks something · 4 port in use · 75 busy"""
STOP_HELP = """usage: ./stop.sh [--force]

Stops what this checkout started: cancels Runs, ends streams, closes stores; at most 15 s.
  --force   the same with a deadline of 5 s
exit: 0 stopped or not running · 1 failed · 2 wrong argument · 5 a record named a process that is not ours · 75 busy"""


def main(arguments: list[str]) -> int:
    command, rest = arguments[0], arguments[1:]
    if {"-h", "--help"} & set(rest):
        print(START_HELP if command == "start" else STOP_HELP)
        return 0
    try:
        if command == "start":
            return starting.start(_checkout(), _wish(rest))
        return stopping.stop(_checkout(), forced=_forced(rest))
    except Refused as refused:
        print(f"agent-builder: {refused}", file=sys.stderr)
        return refused.exit_code
    except LocalModelUnavailable:
        return 1
    except OSError as error:
        print(f"agent-builder: {error}", file=sys.stderr)
        return 1


def _checkout() -> Checkout:
    return Checkout(Path(__file__).resolve().parents[3])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Never:
        raise Refused(f"{message} (--help explains)", exit_code=2)


def _wish(arguments: list[str]) -> starting.Wish:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--local-model", nargs="?", const="")
    parser.add_argument("--model-file", type=Path)
    parser.add_argument("--no-local-model", action="store_true")
    given = parser.parse_args(arguments)
    if given.no_local_model:
        return starting.Wish(forget=True)
    if given.local_model is None:
        if given.model_file is not None:
            raise Refused("--model-file belongs to --local-model (--help explains)", exit_code=2)
        return starting.Wish()
    try:
        modes = () if given.model_file and not given.local_model else parse_modes(given.local_model or "base")
    except ValueError as error:
        raise Refused(str(error), exit_code=2) from error
    return starting.Wish(mode=LocalMode(modes, _existing(given.model_file)))


def _existing(path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise Refused(f"{path} is not a file", exit_code=2)
    return path.resolve() if path else None


def _forced(arguments: list[str]) -> bool:
    if arguments not in ([], ["--force"]):
        raise Refused(f"unknown argument: {' '.join(arguments)} (--help explains)", exit_code=2)
    return bool(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
