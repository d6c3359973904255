"""Resource limits of a confined process, set hard so that it can never raise them."""

import resource
from typing import NamedTuple


class Limits(NamedTuple):
    """Processor seconds, bytes of address space, bytes per written file, open descriptors."""

    cpu_s: int
    memory_bytes: int
    file_bytes: int
    descriptors: int


def apply_limits(limits: Limits) -> None:
    """Never raises a limit that is already lower. Core dumps, locked memory, message queues and new processes are zero.

    (The kernel does not enforce RLIMIT_NPROC for uid 0; there seccomp alone stops fork.)
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    _lower(resource.RLIMIT_MSGQUEUE, 0)
    _lower(resource.RLIMIT_NPROC, 0)
    _lower(resource.RLIMIT_NOFILE, limits.descriptors)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(resource.RLIMIT_AS, limits.memory_bytes)
    _lower(resource.RLIMIT_CPU, limits.cpu_s, spare=1)


def _lower(which: int, wanted: int, spare: int = 0) -> None:
    """`spare` is added to the hard limit: processor time then ends with SIGXCPU, which says what happened, before SIGKILL."""
    _, hard = resource.getrlimit(which)
    bound = wanted + spare if hard == resource.RLIM_INFINITY else min(wanted + spare, hard)
    resource.setrlimit(which, (min(wanted, bound), bound))
