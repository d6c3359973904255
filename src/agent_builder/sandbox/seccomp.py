"""Loads a compiled seccomp program (classic BPF, 8 bytes per instruction) and checks its shape before.

The shape: architecture check and unknown-number check first, jumps only forward and inside, only the opcodes a filter
needs, only the results this project uses. Source of the numbers: include/uapi/linux/{filter,seccomp,audit}.h.
"""

import ctypes
import struct
from collections.abc import Iterator
from typing import NamedTuple

from agent_builder.protocol.limits import SECCOMP_INSTRUCTIONS
from agent_builder.sandbox.linux_calls import FIRST_UNKNOWN_CALL, MACHINE, PR_SET_SECCOMP, prctl

LOAD, AND = 0x20, 0x54
JUMP, JUMP_EQUAL, JUMP_GREATER, JUMP_GREATER_EQUAL, JUMP_BITS = 0x05, 0x15, 0x25, 0x35, 0x45
RETURN = 0x06
CONDITIONAL = (JUMP_EQUAL, JUMP_GREATER, JUMP_GREATER_EQUAL, JUMP_BITS)

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
ERRNO = 0x00050000
EPERM, ENOTTY, ENOSYS = ERRNO | 1, ERRNO | 25, ERRNO | 38
RESULTS = frozenset((ALLOW, KILL_PROCESS, EPERM, ENOTTY, ENOSYS))

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16

_MODE_FILTER = 2
_INSTRUCTION = struct.Struct("=HBBI")


class ProgramRefused(Exception):
    """The bytes are not a program that this project would have built."""


class Instruction(NamedTuple):
    code: int
    when_true: int
    when_false: int
    value: int


def instructions(program: bytes) -> list[Instruction]:
    if not program or len(program) % _INSTRUCTION.size or len(program) > SECCOMP_INSTRUCTIONS * _INSTRUCTION.size:
        raise ProgramRefused("wrong length")
    return [Instruction(*fields) for fields in _INSTRUCTION.iter_unpack(program)]


def pack(program: list[Instruction]) -> bytes:
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def prologue(machine: str) -> list[Instruction]:
    """The first instructions of every program: wrong architecture and x32 die, numbers nobody knows yet are ENOSYS."""
    if machine not in ARCHITECTURES:
        raise ProgramRefused(f"no system call table for {machine}")
    return [
        Instruction(LOAD, 0, 0, ARCHITECTURE_OFFSET),
        Instruction(JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        Instruction(RETURN, 0, 0, KILL_PROCESS),
        Instruction(LOAD, 0, 0, NUMBER_OFFSET),
        Instruction(JUMP_GREATER_EQUAL, 0, 1, X32_BIT),
        Instruction(RETURN, 0, 0, KILL_PROCESS),
        Instruction(JUMP_GREATER_EQUAL, 0, 1, FIRST_UNKNOWN_CALL),
        Instruction(RETURN, 0, 0, ENOSYS),
    ]


def check_shape(program: bytes) -> None:
    """Raises ProgramRefused unless the program has the shape described above for this machine."""
    found = instructions(program)
    expected = prologue(MACHINE)
    if found[: len(expected)] != expected:
        raise ProgramRefused("the architecture check is missing")
    for fault in _faults(found):
        raise ProgramRefused(fault)


def load(program: bytes) -> None:
    """Checks the shape and binds this thread and its future children for ever. Needs no_new_privs."""
    check_shape(program)
    code = ctypes.create_string_buffer(program, len(program))
    count = len(program) // _INSTRUCTION.size
    packed = struct.pack("@HP", count, ctypes.addressof(code))
    header = ctypes.create_string_buffer(packed, len(packed))
    prctl(PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))


def _faults(program: list[Instruction]) -> Iterator[str]:
    for position, (code, when_true, when_false, value) in enumerate(program):
        room = len(program) - position - 1
        if code == RETURN and value not in RESULTS:
            yield f"instruction {position} has an unknown result"
        elif code in CONDITIONAL and max(when_true, when_false) >= room:
            yield f"instruction {position} jumps outside"
        elif code == JUMP and value >= room:
            yield f"instruction {position} jumps outside"
        elif code == LOAD and (value % 4 or value >= ARGUMENTS_OFFSET + 6 * 8):
            yield f"instruction {position} loads outside"
        elif code not in (RETURN, JUMP, LOAD, AND, *CONDITIONAL):
            yield f"instruction {position} has an unknown opcode"
    if program[-1].code != RETURN:
        yield "the program does not end in a result"
