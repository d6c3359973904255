"""Landlock: the kernel's own file, TCP and scope rules for this process and all it starts.

One ruleset handles every file right, both TCP rights without any port rule (so every bind and connect is refused), and
both scopes (no abstract socket and no signal leaves the domain). Source of the numbers: the kernel's
include/uapi/linux/landlock.h.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from typing import NamedTuple

from agent_builder.sandbox.linux_calls import system_call

REQUIRED_ABI = 6  # the first with scopes; below it signals and abstract sockets stay open

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
TRUNCATE = 1 << 14

# What a rule may grant. Devices, sockets, fifos, symlinks, ioctls and moves between directories are never granted.
READ = READ_FILE | READ_DIR
RUN = EXECUTE | READ_FILE
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE

_ALL_FILE_RIGHTS = (1 << 16) - 1
_ALL_TCP_RIGHTS = 0b11
_ALL_SCOPES = 0b11
_RIGHTS_ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
_CREATE_VERSION = 1
_PATH_BENEATH = 1


class PathRule(NamedTuple):
    """`path` is absolute and resolved: a symlink as its last component is refused."""

    path: str
    rights: int


def abi_version() -> int:
    """The kernel's Landlock ABI. Raises OSError (ENOSYS, EOPNOTSUPP) where there is none."""
    return system_call("landlock_create_ruleset", None, 0, _CREATE_VERSION)


def build_ruleset(rules: Iterable[PathRule]) -> int:
    """A ruleset descriptor, close-on-exec. The caller hands it to `restrict_self`, which closes it."""
    attributes = struct.pack("=QQQ", _ALL_FILE_RIGHTS, _ALL_TCP_RIGHTS, _ALL_SCOPES)
    ruleset = system_call("landlock_create_ruleset", ctypes.c_char_p(attributes), len(attributes), 0)
    for rule in rules:
        _add(ruleset, rule)
    return ruleset


def restrict_self(ruleset: int) -> None:
    """Binds this thread and its future children for ever. Needs no_new_privs."""
    system_call("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def _add(ruleset: int, rule: PathRule) -> None:
    target = os.open(rule.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mode = os.fstat(target).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(f"a Landlock rule names a symlink: {rule.path}")
        rights = rule.rights if stat.S_ISDIR(mode) else rule.rights & _RIGHTS_ON_A_FILE
        attributes = struct.pack("=Qi", rights, target)
        system_call("landlock_add_rule", ruleset, _PATH_BENEATH, ctypes.c_char_p(attributes), 0)
    finally:
        os.close(target)
