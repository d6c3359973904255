from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_memory_and_environment_of_another_process_cannot_be_read(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = ["environment_of_parent", "memory_of_parent"]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"EACCES"} for key in names}
