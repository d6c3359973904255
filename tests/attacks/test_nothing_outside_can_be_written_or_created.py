from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_nothing_outside_can_be_written_or_created(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = ["write_canary", "create_outside"]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"EACCES"} for key in names}
