"""Start-up qualification: throwaway processes confine themselves as a Worker, a command, a Skill's script and a parser do, then try every attack.
Whatever is not refused with the expected errno makes the Gateway refuse to start.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_builder.protocol.errors import SandboxFailed
from agent_builder.protocol.limits import HANDSHAKE_BYTES, QUALIFICATION_S
from agent_builder.sandbox.landlock import REQUIRED_ABI, abi_version
from agent_builder.sandbox.launch import command_command, document_command, worker_command, worker_environment
from agent_builder.sandbox.linux_calls import MACHINE
from agent_builder.sandbox.probes import COMMAND_EXPECTED, DOCUMENT_EXPECTED, SKILL_EXPECTED, WORKER_EXPECTED, Targets
from agent_builder.sandbox.profiles import COMMAND_BASH, SKILL_SCRIPT
from agent_builder.sandbox.seccomp import ARCHITECTURES
from agent_builder.sandbox.spawn import spawn

# Only x86_64 has a second numbering to try. SIGSEGV where the kernel has no i386 calls at all.
_EXPECTED_ENDS = (-signal.SIGSYS, -signal.SIGSEGV) if MACHINE == "x86_64" else (0,)
_COPY = "document"


async def qualify(worker_env: Path, scratch: Path, abi: Callable[[], int] = abi_version) -> None:
    """Raises SandboxFailed with the names of the probes that failed, or the reason why this kernel is not supported.
    `scratch` is an existing private directory; nothing is left in it. `abi` is replaced by tests."""
    require_kernel(abi)
    try:
        async with asyncio.timeout(QUALIFICATION_S):
            failed = await failed_probes(worker_env, scratch)
    except TimeoutError as error:
        raise SandboxFailed(f"The sandbox could not be tested within {QUALIFICATION_S} s.") from error
    if failed:
        raise SandboxFailed("The sandbox does not keep its promises: " + ", ".join(failed) + ".", probes=failed)


def require_kernel(abi: Callable[[], int] = abi_version) -> None:
    """Raises SandboxFailed with what is missing."""
    if MACHINE not in ARCHITECTURES:
        raise SandboxFailed(f"The sandbox does not support {MACHINE}; a Linux x86_64 machine is needed.")
    try:
        found = abi()
    except OSError as error:
        raise SandboxFailed("This kernel has no Landlock; Linux 6.12 or newer with Landlock enabled is needed.") from error
    if found < REQUIRED_ABI:
        raise SandboxFailed(f"This kernel has Landlock ABI {found}, but {REQUIRED_ABI} is needed (Linux 6.12 or newer).")


async def failed_probes(worker_env: Path, scratch: Path) -> list[str]:
    """The names of the probes whose outcome was not the expected one, `worker:`, `command:`, `skill:` or `document:` before each."""
    with _targets(scratch) as (targets, inside):
        worker = [*worker_command(worker_env), "--qualify"]
        command, environment = command_command(COMMAND_BASH.name, worker_env, inside)
        script, script_environment = command_command(SKILL_SCRIPT.name, worker_env, inside)
        parser, plain = document_command("text", worker_env, inside / _COPY, None)
        probing = [
            asyncio.create_task(_failures("worker", worker, worker_environment(), WORKER_EXPECTED, targets, inside)),
            asyncio.create_task(_failures("command", [*command, "--qualify"], environment, COMMAND_EXPECTED, targets, inside)),
            asyncio.create_task(_failures("skill", [*script, "--qualify"], script_environment, SKILL_EXPECTED, targets, inside)),
            asyncio.create_task(_failures("document", [*parser, "--qualify"], plain, DOCUMENT_EXPECTED, targets, inside)),
        ]
        try:
            found = await asyncio.gather(*probing)
        finally:
            await asyncio.wait(probing)  # whatever ended one of them: all processes are gone then
    return [name for failures in found for name in failures]


async def _failures(
    kind: str, command: list[str], environment: dict[str, str], expected: dict[str, str], targets: Targets, inside: Path
) -> list[str]:
    # No new session: a session leader could not call setsid anyway, and the probe would prove nothing.
    request = json.dumps({"probe": {"targets": targets, "then_die": MACHINE == "x86_64"}}).encode() + b"\n"
    process = await spawn(
        command, inside, environment, limit=HANDSHAKE_BYTES, stderr=asyncio.subprocess.DEVNULL, pass_fds=(targets.descriptor,),
        new_session=False,
    )
    try:
        output, _ = await process.communicate(request)
    finally:
        await _end(process)
    return [f"{kind}:{name}" for name in _compare(expected, output, process.returncode)]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Our own child is not reaped before this, so its pid cannot be another's."""
    assert process.stdin is not None
    process.stdin.close()
    if process.returncode is None:
        process.kill()
    await process.wait()


def _compare(expected: dict[str, str], output: bytes, ended: int | None) -> list[str]:
    lines = output.splitlines()
    if len(lines) != 2:  # READY and the outcomes
        return ["start"]
    found: dict[str, str] = json.loads(lines[1])
    failed = [f"{name} ({found.get(name, 'missing')})" for name in expected if found.get(name) != expected[name]]
    return failed if ended in _EXPECTED_ENDS else [*failed, f"foreign_architecture ({ended})"]


@contextlib.contextmanager
def _targets(scratch: Path) -> Iterator[tuple[Targets, Path]]:
    """Everything the probes aim at, alive until the end of the block."""
    with tempfile.TemporaryDirectory(dir=scratch) as place, socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        inside, outside = Path(place, "inside"), Path(place, "outside")
        inside.mkdir()
        outside.mkdir()
        canary = outside / "canary"
        canary.write_text("a confined process must never read this\n", encoding="utf-8")
        canary.chmod(0o666)
        (inside / "planted").symlink_to(canary)
        (inside / _COPY).touch(mode=0o600)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        abstract = f"agent-builder-probe-{os.getpid()}-{os.urandom(8).hex()}"
        unix.bind("\0" + abstract)
        unix.listen()
        descriptor = os.open(canary, os.O_RDWR | os.O_CLOEXEC)
        try:
            port = tcp.getsockname()[1]
            yield Targets(str(canary), "planted", os.getpid(), port, abstract, descriptor), inside
        finally:
            os.close(descriptor)
