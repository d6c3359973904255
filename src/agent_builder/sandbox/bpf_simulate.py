"""Runs a seccomp program in Python: what the kernel would answer to one system call. For verification in the Gateway."""

from agent_builder.protocol.limits import SECCOMP_STEPS
from agent_builder.sandbox.seccomp import (
    AND,
    ARCHITECTURE_OFFSET,
    ARGUMENTS_OFFSET,
    JUMP,
    JUMP_EQUAL,
    JUMP_GREATER,
    JUMP_GREATER_EQUAL,
    LOAD,
    NUMBER_OFFSET,
    RETURN,
    Instruction,
    ProgramRefused,
)

_LOW_WORD = (1 << 32) - 1


def simulate(program: list[Instruction], architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """The program's result (seccomp.ALLOW, EPERM, ...) for one call. Missing arguments are 0. Raises ProgramRefused when
    the program does not end."""
    words = _words(architecture, number, arguments)
    accumulator, position = 0, 0
    for _ in range(SECCOMP_STEPS):
        code, when_true, when_false, value = program[position]
        position += 1
        if code == RETURN:
            return value
        if code == LOAD:
            accumulator = words.get(value, 0)
        elif code == AND:
            accumulator &= value
        elif code == JUMP:
            position += value
        else:
            position += when_true if _compare(code, accumulator, value) else when_false
    raise ProgramRefused("the program does not end")


def _compare(code: int, accumulator: int, value: int) -> bool:
    if code == JUMP_EQUAL:
        return accumulator == value
    if code == JUMP_GREATER:
        return accumulator > value
    return accumulator >= value if code == JUMP_GREATER_EQUAL else bool(accumulator & value)


def _words(architecture: int, number: int, arguments: tuple[int, ...]) -> dict[int, int]:
    """struct seccomp_data as little-endian 32-bit words by offset."""
    words = {NUMBER_OFFSET: number, ARCHITECTURE_OFFSET: architecture}
    for index, argument in enumerate(arguments):
        words[ARGUMENTS_OFFSET + 8 * index] = argument & _LOW_WORD
        words[ARGUMENTS_OFFSET + 8 * index + 4] = argument >> 32 & _LOW_WORD
    return words
