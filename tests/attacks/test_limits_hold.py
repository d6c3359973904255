from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.confined import attack_as_worker


def test_a_file_memory_and_descriptors_past_the_limits_are_refused(worker_env: Path, run_root: Path, targets: Targets) -> None:
    outcomes = attack_as_worker(worker_env, run_root, targets)
    found = (outcomes["large_file"], outcomes["much_memory"], outcomes["many_descriptors"])
    assert found == ("EFBIG", "MemoryError", "EMFILE")
