from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_no_file_metadata_can_be_changed(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = ["chmod", "utime", "setxattr", "chroot", "symlink", "hardlink", "device", "file_handle"]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"EPERM"} for key in names}
