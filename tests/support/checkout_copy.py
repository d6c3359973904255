"""A copy of this checkout in a folder with a difficult name, driven only through its scripts.

    async with CheckoutCopy(tmp_path, fake.port) as copy:      # copied, not started
        assert copy.sh("start.sh").returncode == 0
        await copy.login()

The copy borrows the packages of this checkout, so that a test does not install them; `with_own_environment` leaves that out.
"""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.support.gateway import PROJECT, Gateway

COPIED = ("src", "scripts", "config")
LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-uv.txt")
SCRIPT_S = 300


class CheckoutCopy(Gateway):
    def __init__(self, folder: Path, provider_port: int = 1, *, with_own_environment: bool = False) -> None:
        super().__init__(folder / "智能 体's $(touch x) [1]", provider_port)
        for name in COPIED:
            shutil.copytree(PROJECT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for script in PROJECT.glob("*.sh"):
            shutil.copy(script, self.root)
        if not with_own_environment:
            self._borrow_environment()

    async def __aenter__(self) -> "CheckoutCopy":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.sh("stop.sh", "--force")
        await self.client.aclose()

    @property
    def control_plane(self) -> Path:
        return self.root / ".runtime/control-plane"

    def environ(self, **more: str) -> dict[str, str]:
        """What a careless caller's shell would hand down; no HOME, no locale, a short PATH."""
        return {
            "PATH": "/usr/bin:/bin", "LANG": "C", "CDPATH": "/tmp:/", "PYTHONHOME": "/nonexistent", "PIP_TARGET": "/nonexistent",
            "VIRTUAL_ENV": "/nonexistent", "CONDA_PREFIX": "/nonexistent", "AGENT_BUILDER_HOST": "127.0.0.1",
            "AGENT_BUILDER_PORT": str(self.port), "AGENT_BUILDER_MODEL_CATALOG": str(self.catalog), **more,
        }  # fmt: skip

    def sh(self, script: str, *arguments: str, cwd: Path = Path("/"), **more: str) -> subprocess.CompletedProcess[str]:
        """Runs a script to its end; `more` is added to its environment, an empty value removes a variable."""
        return subprocess.run(self.command_line(script, *arguments), **self._how(cwd, more), timeout=SCRIPT_S, check=False)

    async def spawn(self, script: str, *arguments: str) -> asyncio.subprocess.Process:
        """Starts a script without waiting for it."""
        how = {key: value for key, value in self._how(Path("/"), {}).items() if key in ("cwd", "env", "umask", "stdout", "stderr", "stdin")}
        return await asyncio.create_subprocess_exec(*self.command_line(script, *arguments), **how)

    def command_line(self, script: str, *arguments: str) -> list[str]:
        return [str(self.root / script), *arguments]

    def recorded(self, role: str) -> int:
        """The pid in a record."""
        return int(json.loads((self.control_plane / f"{role}.pid").read_text())["pid"])

    def kill_recorded(self, role: str) -> None:
        os.kill(self.recorded(role), signal.SIGKILL)

    def left_behind(self) -> dict[str, list[str]]:
        """Everything that must not be there after a stop."""
        agents = self.root / ".runtime/agents"
        return {
            "processes": [str(pid) for pid in self.processes()],
            "records": sorted(each.name for each in self.control_plane.glob("*.pid*")),
            "run roots": sorted(str(each) for pattern in ("*/runs/*", "*/spare/*") for each in agents.glob(pattern)),
        }

    def processes(self) -> list[int]:
        """Every process that works in this copy or names it in its command line."""
        found, name = [], os.fsencode(self.root)
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                used = os.fsencode(os.readlink(f"/proc/{entry}/cwd")) + b"\0" + Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if name in used and int(entry) != os.getpid():
                found.append(int(entry))
        return found

    def _how(self, cwd: Path, more: dict[str, str]) -> dict[str, object]:
        environment = {key: value for key, value in self.environ(**more).items() if value}
        pipe = subprocess.PIPE
        return {"cwd": cwd, "env": environment, "umask": 0, "stdout": pipe, "stderr": pipe, "stdin": subprocess.DEVNULL, "text": True}

    def _borrow_environment(self) -> None:
        venv = self.root / ".venv"
        venv.mkdir(mode=0o700)
        for name in ("bin", "lib"):
            (venv / name).symlink_to(PROJECT / ".venv" / name)
        shutil.copy(PROJECT / ".venv/pyvenv.cfg", venv)
        digest = hashlib.sha256(b"".join((self.root / "config" / lock).read_bytes() for lock in LOCKS)).hexdigest()
        (venv / "agent-builder-stamp").write_text(f"dev\n{digest}\n{self.root}\n")


NOTHING_LEFT: dict[str, list[str]] = {"processes": [], "records": [], "run roots": []}


def share_downloads(root: Path) -> None:
    """Lets a copy use the uv and the package cache of this checkout."""
    (root / ".runtime/cache").mkdir(parents=True, exist_ok=True)
    (PROJECT / ".runtime/cache/uv").mkdir(parents=True, exist_ok=True)
    (root / ".runtime/cache/uv").symlink_to(PROJECT / ".runtime/cache/uv")
    if (PROJECT / ".tools").exists():
        (root / ".tools").symlink_to(PROJECT / ".tools")
