from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.confined import attack_as_worker


def test_nothing_can_be_moved_out_or_deleted_outside(worker_env: Path, run_root: Path, targets: Targets) -> None:
    """Rename and unlink are allowed calls, so Landlock alone refuses these."""
    outcomes = attack_as_worker(worker_env, run_root, targets)
    assert (outcomes["move_out"], outcomes["unlink_outside"]) == ("EACCES", "EACCES")
    assert Path(targets.canary).exists()
    assert [path.name for path in run_root.iterdir()] == ["planted"]
