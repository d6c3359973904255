"""Confinement of the running process, in the order that works.

Each step protects the next, and none can be undone afterwards:

1. umask and limits first: they need no privilege, and everything after them already runs inside them;
2. the Landlock ruleset is built while paths can still be opened, but not yet applied;
3. every descriptor except stdin, stdout, stderr and the ruleset is closed, because Landlock and seccomp never take
   back a right that an open descriptor carries;
4. no_new_privs: without it a set-uid binary would lift the rest, and the kernel refuses steps 7 and 8 to ordinary users;
5. all capabilities go, from the bounding set too: a root process with capabilities walks around Landlock through
   /proc/<pid>/environ, chown and prlimit. The user id stays as it is;
6. not dumpable, and killed with its parent: no other process of this user may look into it, and no orphan stays;
7. Landlock binds files, TCP, abstract sockets and signals;
8. seccomp comes last, because it denies the calls of all the other steps.

Threads would escape steps 7 and 8, which bind the calling thread only: a process with a second thread is refused.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterator

from agent_builder.sandbox.landlock import REQUIRED_ABI, abi_version, build_ruleset, restrict_self
from agent_builder.sandbox.linux_calls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_CAPBSET_READ,
    PR_GET_NO_NEW_PRIVS,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    library_call,
    prctl,
    system_call,
)
from agent_builder.sandbox.profiles import Grants, Profile, path_rules
from agent_builder.sandbox.rlimits import apply_limits
from agent_builder.sandbox.seccomp import load

_CAPABILITY_VERSION_3 = 0x20080522
_OWNER_ONLY = 0o077
_AF_UNIX, _SOCK_STREAM = 1, 1
_SIGKILL = 9  # `import signal` would cost every Worker half a millisecond
_STANDARD_DESCRIPTORS = 3
_LAST_DESCRIPTOR = (1 << 32) - 1


class ConfinementFailed(Exception):
    """A promise cannot be kept on this machine; the process must end."""


def confine(profile: Profile, grants: Grants, program: bytes) -> None:
    """Confines this process for ever. Raises ConfinementFailed, OSError, GrantsRefused or ProgramRefused; the caller must
    then exit, for it may be half confined."""
    _require_one_thread()
    if abi_version() < REQUIRED_ABI:
        raise ConfinementFailed(f"Landlock ABI {REQUIRED_ABI} is needed, the kernel has {abi_version()}")
    os.umask(_OWNER_ONLY)
    apply_limits(profile.limits)
    ruleset = build_ruleset(path_rules(profile, grants))
    close_descriptors_except(ruleset)
    set_no_new_privileges()
    drop_capabilities()
    tie_to_parent()
    restrict_self(ruleset)
    load(program)


def require_confined() -> None:
    """Tries one thing that each of the two kernel mechanisms forbids. Raises ConfinementFailed when it works: /proc shows
    seccomp, but never Landlock."""
    _require_errno("reading the root directory", errno.EACCES, lambda: os.listdir("/"))
    _require_errno("a socket", errno.EPERM, lambda: library_call("socket", _AF_UNIX, _SOCK_STREAM, 0))


def set_no_new_privileges() -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if prctl(PR_GET_NO_NEW_PRIVS) != 1:
        raise ConfinementFailed("no_new_privs did not hold")


def drop_capabilities() -> None:
    """Bounding and ambient sets while CAP_SETPCAP is still there, then all the others. A process that never had
    CAP_SETPCAP keeps its bounding set, which no_new_privs makes useless."""
    _drop_bounding_set()
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    system_call("capset", ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))


def tie_to_parent() -> None:
    """Not dumpable, and killed when the parent thread ends. A parent that ended before is noticed by its closed pipe."""
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_PDEATHSIG, _SIGKILL)


def close_descriptors_except(kept: int) -> None:
    if kept > _STANDARD_DESCRIPTORS:
        system_call("close_range", _STANDARD_DESCRIPTORS, kept - 1, 0)
    system_call("close_range", kept + 1, _LAST_DESCRIPTOR, 0)


def _drop_bounding_set() -> None:
    try:
        for capability in _known_capabilities():
            prctl(PR_CAPBSET_DROP, capability)
    except PermissionError:
        return


def _known_capabilities() -> Iterator[int]:
    capability = 0
    while True:
        try:
            prctl(PR_CAPBSET_READ, capability)
        except OSError:
            return
        yield capability
        capability += 1


def _require_errno(what: str, expected: int, attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except OSError as error:
        if error.errno == expected:
            return
        raise ConfinementFailed(f"{what} was refused in an unexpected way") from error
    raise ConfinementFailed(f"{what} is not refused")


def _require_one_thread() -> None:
    with open("/proc/self/status", "rb") as status:
        threads = [line.split()[1] for line in status if line.startswith(b"Threads:")]
    if threads != [b"1"]:
        raise ConfinementFailed("the process has more than one thread")
