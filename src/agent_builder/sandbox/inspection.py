"""Looks at a confined process from the Gateway, through /proc, before anything is entrusted to it.

Landlock cannot be seen there: the process proves it by trying (confine.require_confined), and the start-up qualification
by trying everything.
"""

import os

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.protocol.limits import PROC_FILE_BYTES
from agent_builder.sandbox.linux_calls import PR_SET_DUMPABLE, prctl

_CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapAmb")
_SETPCAP = 1 << 8
_STANDARD = {"0", "1", "2"}


def verify_confined(pid: int) -> None:
    """Raises SandboxFailed unless the process has no_new_privs, a seccomp filter more than we have, no capability, one
    thread, and no descriptor but 0, 1 and 2."""
    status = _status(pid)
    ours = _status(os.getpid())
    _require(status.get("NoNewPrivs") == "1", "no_new_privs is not set")
    _require(status.get("Seccomp") == "2", "no seccomp filter is loaded")
    _require(int(status.get("Seccomp_filters", "0")) > int(ours.get("Seccomp_filters", "0")), "its own seccomp filter is missing")
    _require(status.get("Threads") == "1", "it has more than one thread")
    for name in _CAPABILITY_SETS:
        _require(int(status.get(name, "1"), 16) == 0, f"{name} is not empty")
    if int(ours.get("CapEff", "0"), 16) & _SETPCAP:
        _require(int(status.get("CapBnd", "1"), 16) == 0, "CapBnd is not empty")
    descriptors = open_descriptors(pid)
    _require(descriptors is None or descriptors <= _STANDARD, "it holds a descriptor that it should not have")


def open_descriptors(pid: int) -> set[str] | None:
    """The numbers of its open descriptors; None where the kernel hides them, because the process is not dumpable and we
    lack CAP_SYS_PTRACE."""
    try:
        return set(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return None
    except (FileNotFoundError, ProcessLookupError) as error:
        raise SandboxFailed("The confined process ended before it could be checked.") from error


def harden_gateway() -> None:
    """Makes the Gateway not dumpable: a process of the same user can read neither its memory nor its environment."""
    prctl(PR_SET_DUMPABLE, 0)


def _status(pid: int) -> dict[str, str]:
    try:
        descriptor = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise SandboxFailed("The confined process ended before it could be checked.") from error
    try:
        text = os.read(descriptor, PROC_FILE_BYTES).decode("utf-8", "replace")
    except ProcessLookupError as error:
        raise SandboxFailed("The confined process ended before it could be checked.") from error
    finally:
        os.close(descriptor)
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise SandboxFailed(f"The process is not confined: {fault}.")
