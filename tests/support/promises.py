"""One promise of the sandbox tried against a real Worker and a real command process."""

from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.confined import attack_as_command, attack_as_worker


def outcomes_of(names: list[str], worker_env: Path, run_root: Path, targets: Targets) -> dict[str, set[str]]:
    """For each probe the outcomes in the Worker and in the domain of bounded Bash."""
    worker = attack_as_worker(worker_env, run_root, targets)
    command = attack_as_command("command-bash", worker_env, run_root, targets)
    return {name: {worker[name], command[name]} for name in names}
