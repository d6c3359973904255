"""Each layer bites by itself: the others may hide that one of them does nothing."""

from pathlib import Path

from agent_builder.sandbox.probes import COMMAND_EXPECTED, PROBES, WORKER_EXPECTED, Targets
from tests.support.confined import attack_with

ALLOWED_OUTSIDE = ["own_files", "read_canary", "write_canary", "create_outside", "planted_symlink", "read_passwd", "list_outside", "environment_of_parent", "memory_of_parent", "inherited_descriptor", "tcp_connect", "tcp_bind", "udp_socket", "unix_socket", "abstract_socket", "socketpair", "fork", "thread", "memory_file", "executable_memory", "signal_parent", "pidfd_open", "limits_of_parent"]

LANDLOCK_ALONE = {
    "own_files": "ok",
    "read_canary": "EACCES",
    "write_canary": "EACCES",
    "create_outside": "EACCES",
    "move_out": "EACCES",
    "unlink_outside": "EACCES",
    "planted_symlink": "EACCES",
    "read_passwd": "EACCES",
    "list_outside": "EACCES",
    "environment_of_parent": "EACCES",
    "memory_of_parent": "EACCES",
    "truncate": "EACCES",
    "symlink": "EACCES",
    "hardlink": "EXDEV",
    "device": "EACCES",
    "tcp_connect": "EACCES",
    "tcp_bind": "EACCES",
    "abstract_socket": "EPERM",
    "execve": "EACCES",
    "ptrace": "EPERM",
    "remote_memory": "EPERM",
    "signal_parent": "EPERM",
    "mount": "EPERM",
}

ANYONE_MAY_PASS = 0o001
DECIDED_BY_SECCOMP = ("EPERM", "ENOSYS", "ENOTTY", "RuntimeError")


def test_without_any_layer_the_attacks_succeed(run_root: Path, targets: Targets) -> None:
    outcomes = attack_with("none", run_root, targets, ALLOWED_OUTSIDE)
    assert outcomes == dict.fromkeys(ALLOWED_OUTSIDE, "ok")


def test_landlock_alone_guards_files_tcp_abstract_sockets_and_signals(run_root: Path, targets: Targets) -> None:
    assert attack_with("landlock", run_root, targets, list(LANDLOCK_ALONE)) == LANDLOCK_ALONE


def test_the_closed_seccomp_program_alone_refuses_every_call_it_should(run_root: Path, targets: Targets) -> None:
    expected = {name: outcome for name, outcome in WORKER_EXPECTED.items() if outcome in DECIDED_BY_SECCOMP}
    assert attack_with("closed", run_root, targets, list(expected)) == expected


def test_the_foreign_seccomp_program_alone_refuses_every_call_it_should(run_root: Path, targets: Targets) -> None:
    expected = {name: outcome for name, outcome in COMMAND_EXPECTED.items() if outcome in DECIDED_BY_SECCOMP}
    assert attack_with("foreign", run_root, targets, list(expected)) == expected


def test_the_whole_confinement_holds_for_an_ordinary_user_too(run_root: Path, targets: Targets) -> None:
    for directory in (run_root, *run_root.parents):
        mode = directory.stat().st_mode
        if not mode & ANYONE_MAY_PASS:
            directory.chmod(mode | ANYONE_MAY_PASS)
    outcomes = attack_with("other-user", run_root, targets, list(PROBES))
    assert outcomes == WORKER_EXPECTED
