"""Builds workspaces and Runs for the tests of tools: real files, a recorder of events, an operator who decides."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent_builder.capsule.command_runner import CommandEnd
from agent_builder.protocol.events import Payload, PermissionRequested, RunIdentity
from agent_builder.protocol.ids import new_id
from agent_builder.tools.broker import CapabilityBroker, CapabilityCall, CapabilityResult, ToolScope
from agent_builder.tools.permissions import Permissions
from agent_builder.tools.reads import ReadRecord
from tests.support.clock import MovableClock

SLOW = "def f(): 0\n" * 9_000  # twelve such files take half a minute to compile


def children() -> list[str]:
    """Processes that this one has started and not reaped."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


async def begun(calling: Coroutine[Any, Any, CapabilityResult]) -> "asyncio.Task[CapabilityResult]":
    """The call, once its confined process is there."""
    before = children()
    task = asyncio.create_task(calling)
    while children() == before:
        await asyncio.sleep(0)
    return task


def most_at_once(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[int]:
    """How many calls of this function were under way after each began."""
    real, running, seen = getattr(module, name), [0], [0]

    async def counted(*arguments: object) -> CommandEnd:
        running[0] += 1
        seen.append(running[0])
        try:
            end: CommandEnd = await real(*arguments)
            return end
        finally:
            running[0] -= 1

    monkeypatch.setattr(module, name, counted)
    return seen


def never() -> bool:
    """A search clock that does not end."""
    return False


def put(workspace: Path, path: str, content: bytes | str, mode: int = 0o600) -> Path:
    """A file as the operator would leave it, whatever the umask."""
    target = workspace / path
    for parent in reversed(target.relative_to(workspace).parents):
        directory = workspace / parent
        if not directory.exists():
            directory.mkdir(0o700)
    target.write_bytes(content.encode() if isinstance(content, str) else content)
    target.chmod(mode)
    return target


def give_access_list(path: Path, kind: str = "access") -> None:
    """One more user may read it; kind `default`: what will be made in this directory. Source of the format:
    linux/posix_acl_xattr.h."""
    entries = [(0x01, 6, -1), (0x02, 4, 12345), (0x04, 0, -1), (0x10, 4, -1), (0x20, 0, -1)]
    packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(path, f"system.posix_acl_{kind}", struct.pack("<I", 2) + packed)


@dataclass
class Approvals:
    """The Run's approval clock."""

    clock: MovableClock
    seconds: float = 600.0
    waited: int = 0

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        self.waited += 1
        yield

    def expires_at(self) -> datetime:
        return self.clock.now() + timedelta(seconds=self.seconds)

    def remaining_s(self) -> float:
        return self.seconds


@dataclass
class ToolRun:
    """One Run of one Agent. `operator` is called with each request before it is decided."""

    workspace: Path
    run_root: Path
    worker_env: Path
    library: Path | None = None
    decision: str = "approve"
    reason: str | None = None
    operator: Callable[[PermissionRequested], None] | None = None
    clock: MovableClock = field(default_factory=MovableClock)
    events: list[Payload] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.permissions = Permissions(self.clock)
        self.broker = CapabilityBroker(self.permissions, self.clock, self.worker_env, library=lambda: self.library)
        self.approvals = Approvals(self.clock)
        self.reads = ReadRecord()
        self.identity = RunIdentity(agent_id=new_id(), conversation_id=new_id(), turn_id=new_id(), run_id=new_id())
        self.scope = ToolScope(self.identity, self.workspace, self.run_root, self.emit, self.reads, self.approvals)
        self.decisions: set[asyncio.Task[None]] = set()

    async def emit(self, *payloads: Payload) -> None:
        self.events += payloads
        for payload in payloads:
            if isinstance(payload, PermissionRequested) and self.decision:
                task = asyncio.create_task(self._decide(payload))
                self.decisions.add(task)

    async def _decide(self, request: PermissionRequested) -> None:
        if self.operator is not None:
            self.operator(request)
        try:
            await self.permissions.decide(request.permission_id, self.decision, self.reason)
        except Exception as fault:  # noqa: BLE001 - the test looks at it
            self.faults.append(fault)

    async def call(self, tool_id: str, **arguments: object) -> CapabilityResult:
        return await self.broker.execute(CapabilityCall(new_id(), tool_id, arguments, False), self.scope)

    def types(self, *, durable: bool = True) -> list[str]:
        return [payload.type for payload in self.events if payload.durable or not durable]

    def last(self, kind: type[Payload]) -> Payload:
        return next(payload for payload in reversed(self.events) if isinstance(payload, kind))

    def left_over(self) -> list[str]:
        """Reserved names anywhere in the workspace, and anything beside the run root."""
        names = [name for _, _, files in os.walk(self.workspace) for name in files if name.startswith(".agent-builder-")]
        return names + [entry.name for entry in self.run_root.parent.iterdir() if entry != self.run_root]


def make_run(tmp_path: Path, worker_env: Path | None = None, library: Path | None = None) -> ToolRun:
    root = tmp_path.resolve()
    workspace, run_root = root / "workspace", root / "runs" / new_id()
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    run_root.mkdir(mode=0o700, parents=True)
    return ToolRun(workspace, run_root, worker_env or root / "worker-env", library)
