from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_no_namespace_can_be_made_or_entered_and_nothing_mounted(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = ["user_namespace", "enter_namespace", "mount"]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"EPERM"} for key in names}
