"""Attacks that a confined process tries on itself: the start-up qualification and the tests ask for them by name.

A probe does one forbidden (or, as a control, one allowed) thing. Its outcome is "ok", the name of the errno, or the name
of the exception. Nothing here changes anything when it fails, and each probe cleans up when it succeeds.
"""

import _thread
import ctypes
import errno
import os
import resource
import time
from collections.abc import Callable
from typing import NamedTuple

from agent_builder.protocol.limits import DOCUMENT_MEMORY_BYTES, WORKER_FDS, WORKER_FILE_BYTES, WORKER_MEMORY_BYTES
from agent_builder.sandbox.linux_calls import PR_SET_DUMPABLE, library_call, prctl, raw_system_call, system_call

_AF_UNIX, _AF_INET, _AF_NETLINK, _AF_VSOCK = 1, 2, 16, 40
_STREAM, _DATAGRAM, _RAW = 1, 2, 3
_PTRACE_SEIZE = 0x4206
_TIOCSTI = 0x5412
_NEWUSER = 0x10000000
_READ_EXEC, _PRIVATE_ANONYMOUS = 5, 0x22
_PAGE = 4096
_EMPTY_PATH = 0x1000
_HERE = -100
_HIGH_BIT = 1 << 32
_NO_SUCH_CALL = 9999
_WORLD_WRITABLE = 0o666
_X32_GETPID = 0x40000000 + 39
_I386_GETPID = bytes.fromhex("b814000000cd80c3")  # mov eax, 20; int 0x80; ret


class Targets(NamedTuple):
    """What the parent prepared: a world-writable file `canary` with secret bytes in a directory that is not granted, a
    symlink `planted` to it in the working directory, its own pid, a listening TCP port and abstract socket, and an
    inherited descriptor of the canary."""

    canary: str
    planted: str
    parent: int
    port: int
    abstract: str
    descriptor: int


Attempt = Callable[[Targets], object]


def run_probes(targets: Targets, names: list[str]) -> dict[str, str]:
    """The outcome of each named probe, in order."""
    return {name: outcome(PROBES[name], targets) for name in names}


def outcome(attempt: Attempt, targets: Targets) -> str:
    try:
        attempt(targets)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except (MemoryError, RuntimeError) as error:
        return type(error).__name__
    return "ok"


def prepare_i386_call() -> Callable[[], object]:
    """Machine code that makes an i386 call; it must be made before confinement, which refuses executable memory."""
    import mmap

    page = mmap.mmap(-1, _PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_I386_GETPID)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)


def x32_call() -> object:
    """Must kill the process: the x32 numbering would walk around the list."""
    return raw_system_call(_X32_GETPID)


def _write_rename_unlink(_: Targets) -> None:
    with open("probe.new", "w", encoding="utf-8") as file:
        file.write("probe")
    os.rename("probe.new", "probe")
    with open("probe", encoding="utf-8") as file:
        file.read()
    os.unlink("probe")


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _PAGE)
    finally:
        os.close(descriptor)


def _open_for_write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)


def _outside(targets: Targets, name: str) -> str:
    return os.path.join(os.path.dirname(targets.canary), name)


def _move_out(targets: Targets) -> None:
    os.close(os.open("probe.move", os.O_WRONLY | os.O_CREAT))
    try:
        os.rename("probe.move", _outside(targets, "probe.moved"))
    except OSError:
        os.unlink("probe.move")
        raise
    os.unlink(_outside(targets, "probe.moved"))


def _read_memory_of_parent(targets: Targets) -> None:
    os.close(os.open(f"/proc/{targets.parent}/mem", os.O_RDONLY))


def _socket(family: int, kind: int) -> None:
    os.close(library_call("socket", family, kind, 0))


def _connect(family: int, address: bytes) -> None:
    socket = library_call("socket", family, _STREAM, 0)
    try:
        library_call("connect", socket, ctypes.c_char_p(address), len(address))
    finally:
        os.close(socket)


def _internet_address(port: int) -> bytes:
    return _AF_INET.to_bytes(2, "little") + port.to_bytes(2, "big") + bytes((127, 0, 0, 1)) + bytes(8)


def _bind(_: Targets) -> None:
    socket = library_call("socket", _AF_INET, _STREAM, 0)
    try:
        library_call("bind", socket, ctypes.c_char_p(_internet_address(0)), len(_internet_address(0)))
    finally:
        os.close(socket)


def _socketpair(_: Targets) -> None:
    pair = (ctypes.c_int * 2)()
    library_call("socketpair", _AF_UNIX, _STREAM, 0, pair)
    for socket in pair:
        os.close(socket)


def _fork(_: Targets) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _read_remote(targets: Targets) -> None:
    place = (ctypes.c_ulong * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    system_call("process_vm_readv", targets.parent, place, 1, place, 1, 0)


def _executable_memory(_: Targets) -> None:
    system_call("mmap", 0, _PAGE, _READ_EXEC, _PRIVATE_ANONYMOUS, -1, 0)


def _file_too_large(_: Targets) -> None:
    descriptor = os.open("probe.large", os.O_WRONLY | os.O_CREAT)
    try:
        os.lseek(descriptor, WORKER_FILE_BYTES, os.SEEK_SET)
        os.write(descriptor, b"x")
    finally:
        os.close(descriptor)
        os.unlink("probe.large")


def _too_much_memory(_: Targets) -> None:
    bytearray(max(WORKER_MEMORY_BYTES, DOCUMENT_MEMORY_BYTES))


def _exhaust_descriptors(_: Targets) -> None:
    opened: list[int] = []
    try:
        while len(opened) <= WORKER_FDS:
            opened.append(os.open(".", os.O_RDONLY))
    finally:
        for descriptor in opened:
            os.close(descriptor)


PROBES: dict[str, Attempt] = {
    "own_files": _write_rename_unlink,
    "random": lambda _: os.getrandom(8),
    "clock": lambda _: time.monotonic(),
    "read_canary": lambda t: _read(t.canary),
    "write_canary": lambda t: _open_for_write(t.canary),
    "create_outside": lambda t: _create(_outside(t, "probe.outside")),
    "move_out": _move_out,
    "unlink_outside": lambda t: os.unlink(t.canary),
    "planted_symlink": lambda t: _read(t.planted),
    "read_passwd": lambda _: _read("/etc/passwd"),
    "list_outside": lambda t: os.listdir(os.path.dirname(t.canary)),
    "environment_of_parent": lambda t: _read(f"/proc/{t.parent}/environ"),
    "memory_of_parent": _read_memory_of_parent,
    "inherited_descriptor": lambda t: os.write(t.descriptor, b"x"),
    "chmod": lambda t: os.chmod(t.canary, _WORLD_WRITABLE),
    "utime": lambda t: os.utime(t.canary),
    "setxattr": lambda t: os.setxattr(t.canary, "user.probe", b"x"),
    "chroot": lambda _: os.chroot("."),
    "truncate": lambda t: os.truncate(t.canary, 0),
    "symlink": lambda _: os.symlink("target", "probe.symlink"),
    "hardlink": lambda t: os.link(t.canary, "probe.link"),
    "device": lambda _: os.mknod("probe.device", 0o20600, os.makedev(1, 1)),
    "file_handle": lambda _: system_call("open_by_handle_at", _HERE, None, 0),
    "tcp_connect": lambda t: _connect(_AF_INET, _internet_address(t.port)),
    "tcp_bind": _bind,
    "udp_socket": lambda _: _socket(_AF_INET, _DATAGRAM),
    "raw_socket": lambda _: _socket(_AF_INET, _RAW),
    "unix_socket": lambda _: _socket(_AF_UNIX, _STREAM),
    "netlink_socket": lambda _: _socket(_AF_NETLINK, _RAW),
    "vsock_socket": lambda _: _socket(_AF_VSOCK, _STREAM),
    "socketpair": _socketpair,
    "abstract_socket": lambda t: _connect(_AF_UNIX, _AF_UNIX.to_bytes(2, "little") + b"\0" + t.abstract.encode()),
    "fork": _fork,
    "thread": lambda _: _thread.start_new_thread(time.monotonic, ()),
    "execve": lambda _: os.execv("/bin/true", ["true"]),  # noqa: S606 - the attack itself
    "execveat": lambda _: system_call("execveat", 0, b"", None, None, _EMPTY_PATH),
    "memory_file": lambda _: os.close(os.memfd_create("probe")),
    "executable_memory": _executable_memory,
    "ptrace": lambda t: library_call("ptrace", _PTRACE_SEIZE, t.parent, 0, 0),
    "signal_parent": lambda t: os.kill(t.parent, 0),
    "pidfd_open": lambda t: os.close(os.pidfd_open(t.parent)),
    "pidfd_getfd": lambda _: system_call("pidfd_getfd", 0, 0, 0),
    "remote_memory": _read_remote,
    "limits_of_parent": lambda t: resource.prlimit(t.parent, resource.RLIMIT_CPU),
    "setsid": lambda _: os.setsid(),
    "become_dumpable": lambda _: prctl(PR_SET_DUMPABLE, 1),
    "second_filter": lambda _: system_call("seccomp", 1, 0, None),
    "user_namespace": lambda _: library_call("unshare", _NEWUSER),
    "enter_namespace": lambda _: library_call("setns", 0, 0),
    "clone3": lambda _: system_call("clone3", None, 0),
    "openat2": lambda _: system_call("openat2", _HERE, None, None, 0),
    "statx": lambda _: system_call("statx", _HERE, None, 0, 0, None),
    "call_from_the_future": lambda _: raw_system_call(_NO_SUCH_CALL),
    "terminal_input": lambda _: system_call("ioctl", 0, _TIOCSTI, b"x"),
    "terminal_input_high_bit": lambda _: system_call("ioctl", 0, _TIOCSTI | _HIGH_BIT, b"x"),
    "io_uring_setup": lambda _: system_call("io_uring_setup", 1, None),
    "io_uring_enter": lambda _: system_call("io_uring_enter", 0, 0, 0, 0, None, 0),
    "io_uring_register": lambda _: system_call("io_uring_register", 0, 0, None, 0),
    "bpf": lambda _: system_call("bpf", 0, None, 0),
    "userfaultfd": lambda _: system_call("userfaultfd", 0),
    "perf_event_open": lambda _: system_call("perf_event_open", None, 0, -1, -1, 0),
    "keyctl": lambda _: system_call("keyctl", 0, 0, 0, 0, 0),
    "add_key": lambda _: system_call("add_key", b"user", b"probe", b"x", 1, -3),
    "mount": lambda _: library_call("mount", b"none", b"/", b"tmpfs", 0, None),
    "shared_memory": lambda _: library_call("shmget", 0, _PAGE, 0o600),
    "message_queue": lambda _: library_call("msgget", 0, 0o600),
    "large_file": _file_too_large,
    "much_memory": _too_much_memory,
    "many_descriptors": _exhaust_descriptors,
}

_DENIED_FILES = (
    "read_canary write_canary create_outside move_out unlink_outside planted_symlink read_passwd list_outside "
    "environment_of_parent memory_of_parent"
)

# What a Worker must see; any other outcome, a different errno too, means that a promise does not hold.
WORKER_EXPECTED: dict[str, str] = (
    dict.fromkeys(PROBES, "EPERM")
    | dict.fromkeys(("own_files", "random", "clock"), "ok")
    | dict.fromkeys(_DENIED_FILES.split(), "EACCES")
    | dict.fromkeys(("clone3", "openat2", "statx", "call_from_the_future"), "ENOSYS")
    | dict.fromkeys(("terminal_input", "terminal_input_high_bit"), "ENOTTY")
    | {"inherited_descriptor": "EBADF", "thread": "RuntimeError", "large_file": "EFBIG", "much_memory": "MemoryError"}
    | {"many_descriptors": "EMFILE"}
)

# A Skill's script: the Worker's list of calls, and no place to write to.
SKILL_EXPECTED: dict[str, str] = WORKER_EXPECTED | {"own_files": "EACCES", "large_file": "EACCES"}

# A command's process before it becomes Bash: no writable directory at all, executable memory for the dynamic loader, and
# only Landlock decides what may be executed.
COMMAND_EXPECTED: dict[str, str] = WORKER_EXPECTED | {
    "own_files": "EACCES",
    "large_file": "EACCES",
    "truncate": "EACCES",
    "executable_memory": "ok",
    "execve": "EACCES",
    "many_descriptors": "EACCES",
}

# A parser of documents: the Worker's system calls, and no directory at all in which it may write or look.
DOCUMENT_EXPECTED: dict[str, str] = WORKER_EXPECTED | {"own_files": "EACCES", "large_file": "EACCES", "many_descriptors": "EACCES"}
