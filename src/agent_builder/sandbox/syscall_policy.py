"""Which system calls each seccomp program lets through: names only, for bpf_build.py and the tests.

`closed` starts from "refuse" and is for our own Python after its imports. `foreign` starts from "allow" and is for Bash
and Git, whose C library we do not choose; it stands second to Landlock. A refused call answers EPERM; ENOSYS where the C
library has a fallback; ENOTTY for ioctl, the honest answer of something that is no terminal.
"""

from typing import NamedTuple

from agent_builder.sandbox.linux_calls import FIRST_UNKNOWN_CALL
from agent_builder.sandbox.seccomp import ALLOW, ENOSYS, ENOTTY, EPERM

LOW_WORD = 0xFFFFFFFF  # the kernel reads 32 bits of these arguments; comparing 64 would let a high bit pass by
FULL_WORD = (1 << 64) - 1
PROT_WRITE, PROT_EXEC = 2, 4


class ArgumentTest(NamedTuple):
    """Argument number `argument` (from 0) masked by `mask` equals `value`; with `negated` all 64 bits differ."""

    argument: int
    mask: int
    value: int
    negated: bool = False


class Rule(NamedTuple):
    """`call` is a name, or a number that libseccomp has no name for."""

    call: str | int
    result: int
    test: ArgumentTest | None = None


class Policy(NamedTuple):
    default: int
    rules: tuple[Rule, ...]


def _rules(result: int, names: str) -> tuple[Rule, ...]:
    return tuple(Rule(name, result) for name in names.split())


_CLOSED_ALLOWED = """
    brk clock_getres clock_gettime clock_nanosleep close exit exit_group fstat fsync futex getcwd getdents64 getpid
    getrandom gettid gettimeofday lseek madvise mremap munmap nanosleep newfstatat openat poll read rename
    restart_syscall rt_sigaction rt_sigprocmask rt_sigreturn sched_yield sigaltstack unlink write
"""
_NEWER_WITH_FALLBACK = "clone3 statx faccessat2 openat2 rseq"
_DESCRIPTOR_FLAGS = (1, 2, 3)  # F_GETFD, F_SETFD, F_GETFL

CLOSED = Policy(
    EPERM,
    _rules(ALLOW, _CLOSED_ALLOWED)
    + _rules(ENOSYS, _NEWER_WITH_FALLBACK + " close_range")
    + (Rule("ioctl", ENOTTY),)
    + tuple(Rule(call, ALLOW, ArgumentTest(2, PROT_EXEC, 0)) for call in ("mmap", "mprotect"))
    + tuple(Rule("fcntl", ALLOW, ArgumentTest(1, LOW_WORD, flag)) for flag in _DESCRIPTOR_FLAGS),
)

_NETWORK = """
    accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg
    sendto setsockopt shutdown socket socketpair
"""
_PROCESSES = """
    clone execveat fork kcmp kill pidfd_getfd pidfd_open pidfd_send_signal prctl process_vm_readv process_vm_writev
    ptrace rt_sigqueueinfo rt_tgsigqueueinfo setpgid setsid tgkill tkill vfork
"""
_IDENTITY = """
    capset personality setfsgid setfsuid setgid setgroups setregid setresgid setresuid setreuid setuid
"""
_PRIORITIES = """
    ioprio_set migrate_pages move_pages sched_setaffinity sched_setattr sched_setparam sched_setscheduler
    setpriority setrlimit
"""
_FILE_METADATA = """
    chmod chown chroot fchmod fchmodat fchown fchownat fremovexattr fsetxattr futimesat lchown link linkat
    lremovexattr lsetxattr mknod mknodat name_to_handle_at open_by_handle_at quotactl removexattr
    setxattr symlink symlinkat utime utimensat utimes
"""
_NAMESPACES = """
    fsconfig fsmount fsopen fspick mount move_mount open_tree pivot_root setns umount2 unshare
"""
_KERNEL_SURFACE = """
    acct add_key bpf fanotify_init fanotify_mark init_module finit_module delete_module inotify_add_watch
    inotify_init inotify_init1 io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit io_uring_enter
    io_uring_register io_uring_setup ioperm iopl kexec_file_load kexec_load keyctl lookup_dcookie memfd_create
    modify_ldt mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd nfsservctl perf_event_open
    reboot request_key seccomp semctl semget semop semtimedop sethostname setdomainname shmat shmctl shmdt shmget
    splice swapoff swapon sysfs syslog tee uselib userfaultfd ustat vhangup vmsplice
"""
_CLOCKS = "adjtimex clock_adjtime clock_settime settimeofday timer_create timerfd_create"
# process_madvise .. file_setattr by number, since an older libseccomp lacks names; epoll_pwait2 and futex_waitv stay open
_NEWER_CALLS = tuple(number for number in range(440, FIRST_UNKNOWN_CALL) if number not in (441, 449))
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ
_SIGNAL_AND_LEASE_FLAGS = (8, 10, 15, 1024, 1026, 1031)
_WRITABLE_CODE = PROT_WRITE | PROT_EXEC

FOREIGN = Policy(
    ALLOW,
    _rules(EPERM, _NETWORK + _PROCESSES + _IDENTITY + _PRIORITIES + _FILE_METADATA + _NAMESPACES + _KERNEL_SURFACE + _CLOCKS)
    + _rules(ENOSYS, _NEWER_WITH_FALLBACK)
    + (Rule("ioctl", ENOTTY),)
    + tuple(Rule(number, ENOSYS) for number in _NEWER_CALLS)
    + tuple(
        Rule(call, EPERM, ArgumentTest(2, _WRITABLE_CODE, _WRITABLE_CODE)) for call in ("mmap", "mprotect", "pkey_mprotect")
    )
    + tuple(Rule("fcntl", EPERM, ArgumentTest(1, LOW_WORD, flag)) for flag in _SIGNAL_AND_LEASE_FLAGS)
    # prlimit64 may read limits of its own process (pid 0) and set none (new limit NULL)
    + tuple(Rule("prlimit64", EPERM, ArgumentTest(argument, 0, 0, negated=True)) for argument in (0, 2)),
)

POLICIES = {"closed": CLOSED, "foreign": FOREIGN}
