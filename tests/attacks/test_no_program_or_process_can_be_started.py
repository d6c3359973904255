from pathlib import Path

from agent_builder.sandbox.probes import Targets
from tests.support.confined import attack_as_command, attack_as_worker


def test_a_worker_can_start_neither_process_nor_thread_nor_program(worker_env: Path, run_root: Path, targets: Targets) -> None:
    outcomes = attack_as_worker(worker_env, run_root, targets)
    names = ("fork", "thread", "execve", "execveat", "memory_file", "executable_memory")
    assert [outcomes[name] for name in names] == ["EPERM", "RuntimeError", "EPERM", "EPERM", "EPERM", "EPERM"]


def test_a_command_can_start_neither_process_nor_thread_nor_another_program(
    worker_env: Path, run_root: Path, targets: Targets
) -> None:
    outcomes = attack_as_command("command-bash", worker_env, run_root, targets)
    names = ("fork", "thread", "execve", "execveat", "memory_file")
    assert [outcomes[name] for name in names] == ["EPERM", "RuntimeError", "EACCES", "EPERM", "EPERM"]


def test_compiling_may_not_start_any_program(worker_env: Path, run_root: Path, targets: Targets) -> None:
    outcomes = attack_as_command("command-compile", worker_env, run_root, targets)
    assert (outcomes["execve"], outcomes["executable_memory"], outcomes["own_files"]) == ("EPERM", "EPERM", "EACCES")
