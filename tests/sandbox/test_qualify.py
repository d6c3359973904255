import shutil
import signal
from pathlib import Path

import pytest

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.sandbox import qualify as qualification
from agent_builder.sandbox.bpf_build import build_programs
from agent_builder.sandbox.probes import COMMAND_EXPECTED, DOCUMENT_EXPECTED, PROBES, SKILL_EXPECTED, WORKER_EXPECTED
from agent_builder.sandbox.qualify import failed_probes, qualify, require_kernel
from agent_builder.sandbox.seccomp import ALLOW, RETURN, Instruction, pack, prologue


def test_every_probe_has_an_expected_outcome() -> None:
    assert list(WORKER_EXPECTED) == list(PROBES)
    assert list(COMMAND_EXPECTED) == list(PROBES)
    assert list(SKILL_EXPECTED) == list(PROBES)
    assert list(DOCUMENT_EXPECTED) == list(PROBES)


async def test_this_kernel_keeps_every_promise_and_nothing_is_left_behind(worker_env: Path, tmp_path: Path) -> None:
    await qualify(worker_env, tmp_path)
    assert list(tmp_path.iterdir()) == []


def weakened(worker_env: Path, tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A copy of the environment in which one line of a module is changed."""
    copy = tmp_path / "weakened"
    shutil.copytree(worker_env, copy)
    for cache in copy.rglob("__pycache__"):
        shutil.rmtree(cache)
    module = copy / "worker" / "agent_builder" / name
    source = module.read_text(encoding="utf-8")
    assert old in source
    module.write_text(source.replace(old, new), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("name", "old", "new", "named"),
    [
        ("sandbox/confine.py", "    close_descriptors_except(ruleset)\n", "", "worker:inherited_descriptor (ok)"),
        ("sandbox/rlimits.py", "_lower(resource.RLIMIT_FSIZE, limits.file_bytes)", "0", "worker:large_file (ok)"),
        ("sandbox/rlimits.py", "_lower(resource.RLIMIT_AS, limits.memory_bytes)", "0", "worker:much_memory (ok)"),
        ("sandbox/landlock.py", "_ALL_FILE_RIGHTS = (1 << 16) - 1", "_ALL_FILE_RIGHTS = ((1 << 16) - 1) & ~WRITE_FILE", "worker:start"),
    ],
)
async def test_a_missing_step_is_named(name: str, old: str, new: str, named: str, worker_env: Path, tmp_path: Path) -> None:
    copy = weakened(worker_env, tmp_path, name, old, new)
    with pytest.raises(SandboxFailed) as raised:
        await qualify(copy, tmp_path)
    assert named in raised.value.details["probes"]  # type: ignore[operator]


async def test_a_granted_directory_too_many_is_named(worker_env: Path, tmp_path: Path) -> None:
    copy = weakened(worker_env, tmp_path, "sandbox/profiles.py", "return [PathRule(path, rights) for", 'return [PathRule("/etc", READ)] + [PathRule(path, rights) for')
    failed = await failed_probes(copy, tmp_path)
    assert failed == ["worker:read_passwd (ok)", "command:read_passwd (ok)", "skill:read_passwd (ok)", "document:read_passwd (ok)"]


async def test_one_call_too_many_is_named(worker_env: Path, tmp_path: Path) -> None:
    copy = tmp_path / "weakened"
    shutil.copytree(worker_env, copy)
    program = (copy / "closed.bpf").read_bytes()
    head = prologue(qualification.MACHINE)
    setsid = 112
    opened = pack([*head, Instruction(0x20, 0, 0, 0), Instruction(0x15, 0, 1, setsid), Instruction(RETURN, 0, 0, ALLOW)])
    (copy / "closed.bpf").write_bytes(opened + program[len(pack(head)) :])
    failed = await failed_probes(copy, tmp_path)
    assert failed == ["worker:setsid (ok)", "skill:setsid (ok)", "document:setsid (ok)"]
    assert build_programs()["closed"] == program


async def test_a_worker_that_cannot_start_is_named(worker_env: Path, tmp_path: Path) -> None:
    copy = tmp_path / "broken"
    shutil.copytree(worker_env, copy)
    (copy / "closed.bpf").unlink()
    assert await failed_probes(copy, tmp_path) == ["worker:start", "skill:start", "document:start"]


def test_fewer_answers_than_probes_are_failures() -> None:
    expected = {"read_passwd": "EACCES", "fork": "EPERM"}
    output = b'{"ready":true}\n{"read_passwd":"EACCES"}\n'
    assert qualification._compare(expected, output, -signal.SIGSYS) == ["fork (missing)"]


def test_surviving_the_last_probe_is_a_failure() -> None:
    assert qualification._compare({}, b"{}\n{}\n", 0) == ["foreign_architecture (0)"]


async def test_a_process_that_hangs_is_a_failure(worker_env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qualification, "QUALIFICATION_S", 0.01)
    with pytest.raises(SandboxFailed, match="could not be tested"):
        await qualify(worker_env, tmp_path)


@pytest.mark.parametrize("found", [0, 1, 5])
def test_an_older_landlock_is_refused_with_what_is_needed(found: int) -> None:
    with pytest.raises(SandboxFailed, match=f"Landlock ABI {found}, but 6 is needed"):
        require_kernel(lambda: found)


def test_the_first_sufficient_landlock_is_accepted() -> None:
    require_kernel(lambda: 6)


async def test_a_kernel_without_landlock_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    def no_landlock() -> int:
        raise OSError(95, "not supported")

    with pytest.raises(SandboxFailed, match="no Landlock"):
        await qualify(tmp_path / "never-read", tmp_path, no_landlock)


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qualification, "MACHINE", "riscv64")
    with pytest.raises(SandboxFailed, match="riscv64"):
        require_kernel(lambda: 7)
