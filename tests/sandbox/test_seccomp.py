import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.protocol.limits import SECCOMP_INSTRUCTIONS
from agent_builder.sandbox import bpf_build
from agent_builder.sandbox.bpf_build import build_programs
from agent_builder.sandbox.bpf_simulate import simulate
from agent_builder.sandbox.linux_calls import MACHINE
from agent_builder.sandbox.seccomp import (
    ALLOW,
    ARCHITECTURES,
    ENOSYS,
    ENOTTY,
    EPERM,
    KILL_PROCESS,
    RESULTS,
    RETURN,
    Instruction,
    ProgramRefused,
    check_shape,
    instructions,
    pack,
    prologue,
)

HERE = ARCHITECTURES[MACHINE]
READ, WRITE, MMAP, IOCTL, SOCKET, CLONE, EXECVE, FCNTL, PRLIMIT64, CLONE3 = 0, 1, 9, 16, 41, 56, 59, 72, 302, 435


def answer(program: str, number: int, *arguments: int) -> int:
    return simulate(instructions(build_programs()[program]), HERE, number, arguments)


def test_the_closed_program_answers_as_its_list_says() -> None:
    assert [answer("closed", call) for call in (READ, WRITE, SOCKET, CLONE, EXECVE, IOCTL, CLONE3)] == [
        ALLOW, ALLOW, EPERM, EPERM, EPERM, ENOTTY, ENOSYS,
    ]


def test_the_foreign_program_lets_a_program_start_but_no_process_or_socket() -> None:
    assert [answer("foreign", call) for call in (READ, WRITE, SOCKET, CLONE, EXECVE, IOCTL, CLONE3)] == [
        ALLOW, ALLOW, EPERM, EPERM, ALLOW, ENOTTY, ENOSYS,
    ]


def test_executable_memory_depends_on_the_low_bits_only() -> None:
    readable, executable, high = 1, 4, 1 << 32
    assert answer("closed", MMAP, 0, 0, readable | high) == ALLOW
    assert answer("closed", MMAP, 0, 0, readable | executable) == EPERM
    assert answer("closed", MMAP, 0, 0, executable | high) == EPERM
    assert answer("foreign", MMAP, 0, 0, readable | executable) == ALLOW
    assert answer("foreign", MMAP, 0, 0, 2 | executable) == EPERM


def test_a_high_bit_smuggles_no_descriptor_operation_past() -> None:
    set_owner, get_flags, high = 8, 3, 1 << 32
    assert answer("foreign", FCNTL, 0, set_owner) == EPERM
    assert answer("foreign", FCNTL, 0, set_owner | high) == EPERM
    assert answer("closed", FCNTL, 0, get_flags) == ALLOW
    assert answer("closed", FCNTL, 0, set_owner) == EPERM


def test_limits_of_others_and_new_limits_are_refused_to_a_foreign_program() -> None:
    assert answer("foreign", PRLIMIT64, 0, 3, 0) == ALLOW
    assert answer("foreign", PRLIMIT64, 1, 3, 0) == EPERM
    assert answer("foreign", PRLIMIT64, 0, 3, 0x1000) == EPERM
    assert answer("foreign", PRLIMIT64, 0, 3, 1 << 40) == EPERM


@pytest.mark.parametrize("program", ["closed", "foreign"])
@pytest.mark.parametrize(("number", "expected"), [(470, ENOSYS), (9999, ENOSYS), (0x3FFFFFFF, ENOSYS), (0x40000000, KILL_PROCESS)])
def test_unknown_numbers_do_not_exist_and_x32_kills(program: str, number: int, expected: int) -> None:
    assert answer(program, number) == expected


@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))
def test_any_call_of_any_other_architecture_kills(architecture: int, number: int) -> None:
    if architecture != HERE:
        for program in build_programs().values():
            assert simulate(instructions(program), architecture, number) == KILL_PROCESS


@given(st.integers(0, (1 << 32) - 1), st.lists(st.integers(0, (1 << 64) - 1), max_size=6))
def test_every_call_gets_one_of_the_known_answers(number: int, arguments: list[int]) -> None:
    for program in ("closed", "foreign"):
        assert answer(program, number, *arguments) in (ALLOW, EPERM, ENOSYS, ENOTTY, KILL_PROCESS)


def test_a_compiled_program_that_differs_from_its_policy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """libseccomp is replaced by one that allows everything."""
    everything = pack([Instruction(RETURN, 0, 0, ALLOW)])
    monkeypatch.setattr(bpf_build, "_compile", lambda library, policy: everything)
    with pytest.raises(SandboxFailed, match="closed answers call"):
        build_programs.__wrapped__()


def test_a_machine_without_a_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf_build, "MACHINE", "riscv64")
    with pytest.raises(SandboxFailed, match="riscv64"):
        build_programs.__wrapped__()


def test_a_missing_libseccomp_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *rest: object) -> object:
        if name == "pyseccomp":
            raise RuntimeError("no library")
        return original(name, *rest)

    original = __import__
    monkeypatch.setattr("builtins.__import__", missing)
    with pytest.raises(SandboxFailed, match="libseccomp2"):
        build_programs.__wrapped__()


def test_the_built_programs_have_the_right_shape() -> None:
    for program in build_programs().values():
        check_shape(program)


END = Instruction(RETURN, 0, 0, ALLOW)


@pytest.mark.parametrize(
    ("rest", "fault"),
    [
        ([Instruction(RETURN, 0, 0, 0x7FF00000)], "unknown result"),
        ([Instruction(0x15, 0, 1, 0), END], "jumps outside"),
        ([Instruction(0x05, 0, 0, 1), END], "jumps outside"),
        ([Instruction(0x20, 0, 0, 64), END], "loads outside"),
        ([Instruction(0x20, 0, 0, 2), END], "loads outside"),
        ([Instruction(0x87, 0, 0, 0), END], "unknown opcode"),
        ([END, Instruction(0x54, 0, 0, 1)], "does not end in a result"),
    ],
)
def test_a_program_of_another_shape_is_refused(rest: list[Instruction], fault: str) -> None:
    check_shape(pack([*prologue(MACHINE), END]))
    with pytest.raises(ProgramRefused, match=fault):
        check_shape(pack([*prologue(MACHINE), *rest]))


def test_a_program_without_the_architecture_check_is_refused() -> None:
    with pytest.raises(ProgramRefused, match="architecture"):
        check_shape(pack([END]))


def test_the_length_of_a_program_is_bounded() -> None:
    longest = prologue(MACHINE) + [END] * (SECCOMP_INSTRUCTIONS - len(prologue(MACHINE)))
    check_shape(pack(longest))
    for wrong in (pack([*longest, END]), b"", pack([END])[:-1]):
        with pytest.raises(ProgramRefused, match="length"):
            check_shape(wrong)


CODES = st.sampled_from([0x05, 0x06, 0x15, 0x20, 0x25, 0x35, 0x45, 0x54, 0x87])
VALUES = st.integers(0, 5) | st.sampled_from([ALLOW, EPERM, ENOSYS, 16, 20, (1 << 32) - 1])
TAILS = st.lists(st.builds(Instruction, CODES, st.integers(0, 3), st.integers(0, 3), VALUES), max_size=12)


@given(TAILS, st.integers(0, 500))
def test_an_accepted_program_always_ends_in_a_known_result(rest: list[Instruction], number: int) -> None:
    program = [*prologue(MACHINE), *rest, END]
    try:
        check_shape(pack(program))
    except ProgramRefused:
        return
    assert simulate(program, HERE, number, (1, 2, 3)) in RESULTS


def test_a_simulated_program_that_never_ends_is_refused() -> None:
    with pytest.raises(ProgramRefused, match="does not end"):
        simulate([Instruction(0x54, 0, 0, 0)] * 5000, HERE, 0)
