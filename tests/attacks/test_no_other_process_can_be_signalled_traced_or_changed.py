from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_no_other_process_can_be_signalled_traced_or_changed(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = [
        "signal_parent", "pidfd_open", "pidfd_getfd", "ptrace", "remote_memory", "limits_of_parent", "setsid",
        "become_dumpable",
    ]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"EPERM"} for key in names}
