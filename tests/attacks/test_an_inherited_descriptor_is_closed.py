from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_an_inherited_descriptor_is_closed(worker_env: Path, run_root: Path, targets: Targets) -> None:
    assert outcomes_of(["inherited_descriptor"], worker_env, run_root, targets) == {"inherited_descriptor": {"EBADF"}}
