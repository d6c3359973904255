"""Compiles the seccomp programs with libseccomp and proves each by simulation. Runs once in the Gateway, never in a
confined process (importing pyseccomp starts subprocesses). The only file that imports pyseccomp.
"""

import os
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.sandbox.bpf_simulate import simulate
from agent_builder.sandbox.linux_calls import FIRST_UNKNOWN_CALL, MACHINE
from agent_builder.sandbox.seccomp import (
    ALLOW,
    ARCHITECTURES,
    ENOSYS,
    ENOTTY,
    EPERM,
    KILL_PROCESS,
    X32_BIT,
    Instruction,
    check_shape,
    instructions,
    pack,
    prologue,
)
from agent_builder.sandbox.syscall_policy import FULL_WORD, POLICIES, ArgumentTest, Policy, Rule

# aarch64 has only the newer form of some calls.
_STANDINS = {"rename": "renameat", "unlink": "unlinkat", "poll": "ppoll"}
_I386 = 0x40000003


@cache
def build_programs() -> dict[str, bytes]:
    """The program of every policy by name. Raises SandboxFailed where libseccomp is missing, the architecture is unknown,
    or a compiled program does not do what its policy says."""
    if MACHINE not in ARCHITECTURES:
        raise SandboxFailed(f"The sandbox has no system call table for {MACHINE}.")
    library = _libseccomp()
    return {name: _build(library, name, policy) for name, policy in POLICIES.items()}


def _libseccomp() -> ModuleType:
    try:
        import pyseccomp  # here, so that a machine without libseccomp is refused with one clear line
    except RuntimeError as error:
        raise SandboxFailed("libseccomp.so.2 is missing; install the package libseccomp2 and start again.") from error
    module: ModuleType = pyseccomp
    return module


def _build(library: ModuleType, name: str, policy: Policy) -> bytes:
    compiled = instructions(_compile(library, policy))
    program = prologue(MACHINE) + compiled
    _prove(library, name, policy, program, ARCHITECTURES[MACHINE])
    packed = pack(program)
    check_shape(packed)
    return packed


def _compile(library: ModuleType, policy: Policy) -> bytes:
    chain = library.SyscallFilter(defaction=_action(library, policy.default))
    chain.set_attr(library.Attr.ACT_BADARCH, library.KILL_PROCESS)
    for rule, number in _known(library, policy):
        tests = [_argument(library, rule.test)] if rule.test else []
        chain.add_rule(_action(library, rule.result), number, *tests)
    target = os.memfd_create("seccomp-program", os.MFD_CLOEXEC)
    with os.fdopen(target, "w+b") as file:
        chain.export_bpf(file)
        file.seek(0)
        return file.read()


def _known(library: ModuleType, policy: Policy) -> Iterator[tuple[Rule, int]]:
    """Each rule with its number on this machine; calls that this architecture never had are left out."""
    for rule in policy.rules:
        number = rule.call if isinstance(rule.call, int) else _resolve(library, rule.call)
        if number is not None:
            yield rule, number


def _resolve(library: ModuleType, name: str) -> int | None:
    """None for a call that libseccomp knows, but not on this architecture (a negative number below -1)."""
    number = int(library.resolve_syscall(library.Arch.NATIVE, name))
    if number == -1:
        raise SandboxFailed(f"libseccomp does not know the system call {name}; version 2.5 or newer is needed.")
    if number >= 0:
        return number
    return _resolve(library, _STANDINS[name]) if name in _STANDINS else None


def _action(library: ModuleType, result: int) -> object:
    if result in (EPERM, ENOSYS, ENOTTY):
        return library.ERRNO(result & ((1 << 16) - 1))
    return {ALLOW: library.ALLOW, KILL_PROCESS: library.KILL_PROCESS}[result]


def _argument(library: ModuleType, test: ArgumentTest) -> object:
    if test.negated:
        return library.Arg(test.argument, library.NE, test.value)
    return library.Arg(test.argument, library.MASKED_EQ, test.mask, test.value)


def _prove(library: ModuleType, name: str, policy: Policy, program: list[Instruction], architecture: int) -> None:
    """Asks the simulated program about every call there is and compares with the policy."""
    rules: dict[int, list[Rule]] = {}
    for rule, number in _known(library, policy):
        rules.setdefault(number, []).append(rule)
    for number in range(FIRST_UNKNOWN_CALL):
        for arguments in _interesting(rules.get(number, [])):
            expected = _expected(policy, rules.get(number, []), arguments)
            _require(name, number, simulate(program, architecture, number, arguments), expected)
    _require(name, FIRST_UNKNOWN_CALL, simulate(program, architecture, FIRST_UNKNOWN_CALL), ENOSYS)
    _require(name, X32_BIT, simulate(program, architecture, X32_BIT), KILL_PROCESS)
    _require(name, 0, simulate(program, _I386, 0), KILL_PROCESS)


def _interesting(rules: list[Rule]) -> Iterator[tuple[int, ...]]:
    """No arguments, and for each tested argument its value, its neighbours, and each with a high bit set."""
    yield ()
    for rule in rules:
        if rule.test is None:
            continue
        for value in (rule.test.value, rule.test.value + 1, rule.test.value ^ 4, FULL_WORD):
            for high in (0, 1 << 32):
                arguments = [0] * 6
                arguments[rule.test.argument] = (value | high) & FULL_WORD
                yield tuple(arguments)


def _expected(policy: Policy, rules: list[Rule], arguments: tuple[int, ...]) -> int:
    for rule in rules:
        if rule.test is None or _holds(rule.test, arguments):
            return rule.result
    return policy.default


def _holds(test: ArgumentTest, arguments: tuple[int, ...]) -> bool:
    value = arguments[test.argument] if arguments else 0
    return (value != test.value) if test.negated else (value & test.mask == test.value)


def _require(name: str, number: int, found: int, expected: int) -> None:
    if found != expected:
        raise SandboxFailed(f"The seccomp program {name} answers call {number} with {found:#x} instead of {expected:#x}.")
