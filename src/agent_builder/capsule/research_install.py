"""Installs a research environment with the checkout's own uv, package by package, beside its place; then tries, seals and
publishes it.

uv runs as an ordinary process: it needs the network and writes into this checkout only. It gets a clean environment, no shell,
and one requirement with its hashes on stdin; a file with another hash is refused. What it has downloaded and verified stays in
the checkout's cache, so a second try begins where the first one ended. Source: `uv pip install --help` of the pinned version.
"""

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar

from agent_builder.capsule.research_env import ResearchEnv, make_staging, publish, remove_staging
from agent_builder.capsule.research_lock import LockedPackage, ResearchLock, plain_name, read_lock
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import AgentId
from agent_builder.protocol.limits import INSTALLER_GRACE_S, PACKAGE_OUTPUT_BYTES, PIPE_READ_BYTES
from agent_builder.protocol.ports import Clock
from agent_builder.protocol.to_the_end import to_the_end
from agent_builder.sandbox import tied
from agent_builder.sandbox.launch import interpreter
from agent_builder.sandbox.process_identity import ProcessIdentity, identify
from agent_builder.sandbox.spawn import spawn
from agent_builder.sandbox.termination import terminate

P = ParamSpec("P")
T = TypeVar("T")
Step = Literal["downloading", "checking", "finishing"]
FaultCode = Literal[
    "installer_missing", "download_failed", "hash_mismatch", "no_fitting_file", "disk_full", "too_long", "check_failed", "internal"
]
Tell = Callable[[Step, int, int], None]
"""How far it is: the step, and how many packages are in place, of how many."""

_OPTIONS = ("--quiet", "--no-progress", "--only-binary", ":all:", "--no-deps", "--require-hashes", "--link-mode", "copy")
_SIGNS: tuple[tuple[FaultCode, str], ...] = (
    ("hash_mismatch", "hash mismatch"),
    ("disk_full", "no space left on device|disk quota exceeded"),
    ("no_fitting_file", "has no usable wheels|no wheels with a matching"),
)
_PROBE = Path(__file__).with_name("research_probe.py")
_log = logging.getLogger(__name__)


class InstallFailed(Exception):
    """Nothing was installed. `code` says why; the installer's own words are in the log."""

    def __init__(self, code: FaultCode) -> None:
        self.code = code
        super().__init__(code)


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Where packages come from. `downloads`: a folder of files that is looked into first. `environment`: what the operator's
    environment says about index, proxy and certificates, given to uv and to nobody else."""

    downloads: Path | None
    environment: Mapping[str, str]


async def install(checkout: Checkout, agent_id: AgentId, source: PackageSource, clock: Clock, tell: Tell) -> ResearchEnv:
    """A whole environment or none, also when it is cancelled. Raises InstallFailed, OSError."""
    lock = await asyncio.to_thread(read_lock, checkout.research_lock)
    total = len(lock.locked)
    try:
        building = await _whole(make_staging, checkout, agent_id)
        for done, one in enumerate(lock.locked):
            tell("downloading", done, total)
            await _fetch(one, building, checkout, source)
        tell("checking", total, total)
        await _try(building, lock)
        tell("finishing", total, total)
        return await _whole(publish, checkout, agent_id, lock, clock.now())
    finally:
        await _whole(remove_staging, checkout, agent_id)


async def _whole(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """In a thread, which a cancelled waiter leaves only at its end."""
    result, cancelled = await to_the_end(asyncio.to_thread(work, *args, **kwargs))
    if cancelled:
        raise asyncio.CancelledError
    return result


async def _fetch(one: LockedPackage, building: Path, checkout: Checkout, source: PackageSource) -> None:
    if not os.access(checkout.uv, os.X_OK):
        raise InstallFailed("installer_missing")
    near = () if source.downloads is None else ("--find-links", str(source.downloads))
    command = [str(checkout.uv), "pip", "install", *_OPTIONS, *near, "--python", sys.executable, "--target", str(building), "-r", "-"]
    end = await _run(command, building, _uv_environment(checkout, source), one.requirement.encode())
    if end.status != 0:
        raise _fault(one, end)


async def _try(building: Path, lock: ResearchLock) -> None:
    """What lies there must be what the lock says, and must load."""
    end = await _run([interpreter(), "-I", "-S", "-B", str(_PROBE), str(building)], building, {"LC_ALL": "C.UTF-8"}, b"")
    found = {plain_name(name): version for name, version in json.loads(end.stdout).items()} if end.status == 0 else {}
    if found != {one.name: one.version for one in lock.packages}:
        _log.error("the installed packages cannot be used (exit status %s): %s", end.status, _shown(end.stderr))
        raise InstallFailed("check_failed")


def _uv_environment(checkout: Checkout, source: PackageSource) -> dict[str, str]:
    """Everything uv writes stays in the checkout, and no configuration of the operator's own counts."""
    runtime = checkout.runtime
    return {
        **source.environment, "HOME": str(runtime / "home"), "TMPDIR": str(runtime / "tmp"), "UV_CACHE_DIR": str(checkout.cache / "uv"),
        "UV_NO_CONFIG": "1", "UV_SYSTEM_CERTS": "true", "UV_PYTHON_DOWNLOADS": "never", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
    }


def _fault(one: LockedPackage, end: "_Ended") -> InstallFailed:
    words = end.stderr.decode("utf-8", "replace").lower()
    code: FaultCode = next((code for code, sign in _SIGNS if re.search(sign, words)), "download_failed")
    _log.error("%s could not be installed (%s, exit status %s): %s", one.package.name, code, end.status, _shown(end.stderr))
    return InstallFailed(code)


def _shown(output: bytes) -> str:
    """On one line of the log."""
    return " | ".join(line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip())


@dataclass(frozen=True, slots=True)
class _Ended:
    """`stdout` and `stderr`: the last bytes of each."""

    status: int
    stdout: bytes
    stderr: bytes


async def _run(command: list[str], directory: Path, environment: Mapping[str, str], stdin: bytes) -> _Ended:
    """To its end. The process is gone when this returns or raises, also when it is cancelled or this process is killed."""
    tie = [interpreter(), "-I", "-S", "-B", tied.__file__, str(os.getpid())]
    process = await spawn([*tie, *command], directory, environment, limit=PIPE_READ_BYTES)
    identity = _identity(process.pid)
    try:
        return await _finished(process, stdin)
    finally:
        _, cancelled = await to_the_end(terminate(process, identity, INSTALLER_GRACE_S))
        if cancelled:
            raise asyncio.CancelledError


async def _finished(process: asyncio.subprocess.Process, stdin: bytes) -> _Ended:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(stdin)
    process.stdin.close()
    stdout, stderr = await asyncio.gather(_tail(process.stdout), _tail(process.stderr))
    return _Ended(await process.wait(), stdout, stderr)


async def _tail(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while data := await stream.read(PIPE_READ_BYTES):
        kept = (kept + data)[-PACKAGE_OUTPUT_BYTES:]
    return kept


def _identity(pid: int) -> ProcessIdentity:
    """Our child is not reaped before we wait for it, so even a dead one keeps its pid; it then has no identity to signal."""
    try:
        return identify(pid)
    except ProcessLookupError:
        return ProcessIdentity(pid, 0, "")
