"""Which process is meant: its pid, its start time and the boot it belongs to. A pid alone may be given to another process.

Start time: field 22 of /proc/<pid>/stat, in clock ticks since boot (source: proc(5)).
"""

import os
import signal
from contextlib import suppress
from typing import NamedTuple

from agent_builder.protocol.limits import PROC_FILE_BYTES

_STATE, _START_TIME = 0, 19  # places after the command's closing parenthesis
_DEAD = ("Z", "X")


class ProcessIdentity(NamedTuple):
    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id").strip()


def identify(pid: int) -> ProcessIdentity:
    """Raises ProcessLookupError when there is no such process or it has ended (a zombie)."""
    state, start_ticks = _state_and_start(pid)
    if state in _DEAD:
        raise ProcessLookupError(f"process {pid} has ended")
    return ProcessIdentity(pid, start_ticks, boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether exactly this process still runs."""
    try:
        return identify(identity.pid) == identity
    except ProcessLookupError:
        return False


def open_process(identity: ProcessIdentity) -> int:
    """A pidfd of exactly this process; the caller closes it. Raises ProcessLookupError when it is gone."""
    descriptor = os.pidfd_open(identity.pid)
    try:
        if identify(identity.pid) != identity:
            raise ProcessLookupError(f"process {identity.pid} is another one now")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Signals exactly this process. False when it is gone already."""
    try:
        descriptor = open_process(identity)
    except ProcessLookupError:
        return False
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
            return True
        return False
    finally:
        os.close(descriptor)


def _state_and_start(pid: int) -> tuple[str, int]:
    if pid <= 0:
        raise ProcessLookupError(f"{pid} is not a process")
    try:
        text = _read(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessLookupError(f"process {pid} is gone") from error
    fields = text.rpartition(")")[2].split()
    return fields[_STATE], int(fields[_START_TIME])


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, PROC_FILE_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
