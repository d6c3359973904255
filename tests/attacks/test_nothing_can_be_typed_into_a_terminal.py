from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_nothing_can_be_typed_into_a_terminal(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = ["terminal_input", "terminal_input_high_bit"]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"ENOTTY"} for key in names}
