from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_calls_that_seccomp_cannot_judge_do_not_exist(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = ["clone3", "openat2", "statx", "call_from_the_future"]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"ENOSYS"} for key in names}
