"""The system calls that Python lacks, through the C library. Every failure is an OSError with the kernel's errno."""

import ctypes
import errno
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

# x86_64, aarch64; None where the architecture lacks the call. Source: the kernel's syscall tables.
NUMBERS: dict[str, tuple[int | None, int]] = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "capset": (126, 91),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "execveat": (322, 281),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "open_by_handle_at": (304, 265),
    "mmap": (9, 222),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "process_vm_readv": (310, 270),
    "seccomp": (317, 277),
    "statx": (332, 291),
    "userfaultfd": (323, 282),
}

FIRST_UNKNOWN_CALL = 470  # newer calls answer ENOSYS, so that a C library falls back as on an old kernel

# Looked up once: after confinement uname is refused, and its EPERM would pass for the refusal of another call.
MACHINE = os.uname().machine

_ALL_BITS = (1 << 64) - 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def call_number(name: str) -> int:
    """The number of a call on this machine. Raises OSError ENOSYS on an architecture without a table."""
    column = {"x86_64": 0, "aarch64": 1}.get(MACHINE)
    number = None if column is None else NUMBERS[name][column]
    if number is None:
        raise OSError(errno.ENOSYS, f"{name} has no number on {MACHINE}")
    return number


def system_call(name: str, *arguments: object) -> int:
    """Calls by name; integers are passed as 64 bits, anything else as ctypes passes it."""
    return raw_system_call(call_number(name), *arguments)


def raw_system_call(number: int, *arguments: object) -> int:
    return _checked(int(_LIBC.syscall(ctypes.c_long(number), *map(_wide, arguments))), f"system call {number}")


def library_call(name: str, *arguments: object) -> int:
    """A function of the C library that returns a C int, -1 on failure. (Read as a long, that -1 would look like success.)"""
    function = getattr(_LIBC, name)
    function.restype = ctypes.c_int
    return _checked(int(function(*map(_wide, arguments))), name)


def prctl(option: int, *arguments: int) -> int:
    return library_call("prctl", option, *arguments, *[0] * (4 - len(arguments)))


def _wide(value: object) -> object:
    return ctypes.c_ulong(value & _ALL_BITS) if isinstance(value, int) else value


def _checked(result: int, name: str) -> int:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result
