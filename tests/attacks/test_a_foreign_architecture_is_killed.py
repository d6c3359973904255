import json
import signal
from pathlib import Path

from agent_builder.sandbox.launch import command_command
from agent_builder.sandbox.probes import Targets
from tests.support.confined import probe_request, started, worker


def test_an_i386_call_kills_a_worker(worker_env: Path, run_root: Path, targets: Targets) -> None:
    with worker(worker_env, run_root, "--qualify") as child:
        child.line()
        child.write(probe_request(targets, then_die=True))
        assert json.loads(child.line())["random"] == "ok"
        assert child.finish()[0] in (-signal.SIGSYS, -signal.SIGSEGV)


def test_an_x32_call_kills_a_command(worker_env: Path, run_root: Path, targets: Targets) -> None:
    command, environment = command_command("command-bash", worker_env, run_root)
    with started([*command, "--qualify"], run_root, environment) as child:
        child.line()
        child.write(probe_request(targets, then_die=True))
        assert json.loads(child.line())["random"] == "ok"
        assert child.finish()[0] == -signal.SIGSYS
