from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_no_rarely_used_part_of_the_kernel_can_be_reached(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = [
        "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "userfaultfd", "perf_event_open", "keyctl",
        "add_key", "shared_memory", "message_queue", "second_filter",
    ]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"EPERM"} for key in names}
