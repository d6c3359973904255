import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agent_builder.sandbox.process_identity import (
    ProcessIdentity,
    boot_id,
    identify,
    is_alive,
    open_process,
    send_signal,
)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that says hello and then waits for its stdin to close."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print('x', flush=True); sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_an_identity_names_pid_start_time_and_boot(child: subprocess.Popen[bytes]) -> None:
    identity = identify(child.pid)
    assert (identity.pid, identity.boot_id) == (child.pid, boot_id())
    assert identity.start_ticks >= identify(os.getpid()).start_ticks
    assert is_alive(identity)


def test_a_command_name_with_parentheses_does_not_confuse(tmp_path: os.PathLike[str]) -> None:
    name = os.path.join(tmp_path, "a) S 1 (b")
    os.symlink("/bin/cat", name)
    with subprocess.Popen([name], stdin=subprocess.PIPE) as process:
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            expected = int(file.read().rpartition(")")[2].split()[19])
        assert identify(process.pid).start_ticks == expected
        process.kill()


def test_another_start_time_is_another_process(child: subprocess.Popen[bytes]) -> None:
    reused = identify(child.pid)._replace(start_ticks=1)
    assert not is_alive(reused)
    assert not send_signal(reused, signal.SIGKILL)
    with pytest.raises(ProcessLookupError):
        open_process(reused)
    assert child.poll() is None


def test_another_boot_is_another_process(child: subprocess.Popen[bytes]) -> None:
    assert not is_alive(identify(child.pid)._replace(boot_id="00000000-0000-0000-0000-000000000000"))


def test_a_zombie_and_a_reaped_process_are_not_alive(child: subprocess.Popen[bytes]) -> None:
    identity = identify(child.pid)
    assert send_signal(identity, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(identity)
    assert not send_signal(identity, signal.SIGKILL)
    child.wait()
    assert not is_alive(identity)
    assert not send_signal(identity, signal.SIGKILL)


@pytest.mark.parametrize("pid", [0, -1, 1 << 30])
def test_what_is_no_process_has_no_identity(pid: int) -> None:
    with pytest.raises(ProcessLookupError):
        identify(pid)
    assert not is_alive(ProcessIdentity(pid, 0, ""))


def test_a_pidfd_of_the_exact_process_can_be_signalled(child: subprocess.Popen[bytes]) -> None:
    descriptor = open_process(identify(child.pid))
    signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    os.close(descriptor)
    assert child.wait() == -signal.SIGTERM
