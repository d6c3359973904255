"""Research environments in tests: a checkout that can really install one, and an installer that does as it is told.

The packages come from where the project's own come from, through the cache of this checkout: a test session fetches each file
at most once.
"""

import asyncio
import os
import shutil
from pathlib import Path

from tests.support.gateway import PROJECT, SYSTEM_AGENT, Gateway, Json

_SOURCE = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
           "http_proxy", "https_proxy", "all_proxy", "no_proxy", "AGENT_BUILDER_DOWNLOADS")  # fmt: skip
PACKAGE_ENVIRONMENT = {name: os.environ[name] for name in _SOURCE if os.environ.get(name)}


def equip(root: Path, *, cache: bool = True) -> None:
    """Gives a test's checkout the lock file (its own copy) and the real uv; with `cache`, this checkout's cache too."""
    (root / "config").mkdir(exist_ok=True)
    shutil.copy(PROJECT / "config/research-documents.txt", root / "config")
    (root / ".tools").symlink_to(PROJECT / ".tools")
    if cache:
        (root / ".runtime/cache").mkdir(parents=True, exist_ok=True, mode=0o700)
        (PROJECT / ".runtime/cache/uv").mkdir(parents=True, exist_ok=True)
        (root / ".runtime/cache/uv").symlink_to(PROJECT / ".runtime/cache/uv")


def script_installer(root: Path, script: str) -> None:
    """Puts a shell script in uv's place. What it is given stands in "$@"; `starts` in its own folder has a line per start."""
    if (root / ".tools").is_symlink():
        (root / ".tools").unlink()
    (root / "config").mkdir(exist_ok=True)
    shutil.copy(PROJECT / "config/research-documents.txt", root / "config")
    program = root / ".tools/uv/bin/uv"
    program.parent.mkdir(parents=True, exist_ok=True)
    (program.parent / "starts").unlink(missing_ok=True)
    program.write_text(f'#!/bin/sh\necho $$ >>"{program.parent}/starts"\n{script}\n')
    program.chmod(0o700)


HANGING = "echo half >module.py; exec sleep 1000"


async def installer_started(root: Path, times: int = 1) -> int:
    """The pid of the scripted installer's newest start, once there are so many."""
    starts = root / ".tools/uv/bin/starts"
    async with asyncio.timeout(20):
        while not starts.exists() or len(starts.read_text().splitlines()) < times:
            await asyncio.sleep(0.01)
    return int(starts.read_text().splitlines()[-1])


async def ended(pid: int) -> None:
    """Returns when there is no such process, not even a dead one that nobody has waited for."""
    async with asyncio.timeout(10):
        while Path(f"/proc/{pid}/stat").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
            await asyncio.sleep(0.01)


def route(agent: str = SYSTEM_AGENT) -> str:
    return f"/api/agents/{agent}/dependencies/research-documents"


async def until(gateway: Gateway, *states: str, agent: str = SYSTEM_AGENT) -> Json:
    """The status, once it is one of these."""
    async with asyncio.timeout(120):
        while (status := await gateway.ok("GET", route(agent)))["state"] not in states:
            await asyncio.sleep(0.02)
    return dict(status)


async def install(gateway: Gateway, agent: str = SYSTEM_AGENT) -> Json:
    """A real environment, installed."""
    await gateway.ok("POST", route(agent))
    status = await until(gateway, "installed", "failed", agent=agent)
    assert status["state"] == "installed", (status, gateway.log_text())
    return status


def environment_of(gateway: Gateway, agent: str = SYSTEM_AGENT) -> Path:
    return gateway.root / ".runtime/agents" / agent / "dependencies/research-documents"


def record_of(gateway: Gateway, agent: str = SYSTEM_AGENT) -> Path:
    return gateway.root / "data/agents" / agent / "dependencies/research-documents.json"


def left_of(gateway: Gateway, agent: str = SYSTEM_AGENT) -> list[str]:
    """Everything there is of an environment, whole or not."""
    folders = (environment_of(gateway, agent).parent, record_of(gateway, agent).parent)
    return sorted(path.name for folder in folders if folder.exists() for path in folder.iterdir())
