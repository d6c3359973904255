from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.promises import outcomes_of


def test_no_socket_of_any_kind_can_be_opened(worker_env: Path, run_root: Path, targets: Targets) -> None:
    names = [
        "tcp_connect", "tcp_bind", "udp_socket", "raw_socket", "unix_socket", "netlink_socket", "vsock_socket",
        "socketpair", "abstract_socket",
    ]
    assert outcomes_of(names, worker_env, run_root, targets) == {key: {"EPERM"} for key in names}
