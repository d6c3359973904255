"""ResearchEnvs: the research environments of all Agents, and the work on them that is in progress.

What is installed is read from the disk each time; only work in progress and the last failure are in memory, for nothing of
either outlives the process: the next start removes what was left half-way. While an Agent's environment changes, no Run of it
begins, so a Run finds the same environment from its first call to its last.
"""

import asyncio
import errno
import logging
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from agent_builder.capsule.research_env import ResearchEnv, recorded, remove
from agent_builder.capsule.research_install import FaultCode, InstallFailed, PackageSource, Step, install
from agent_builder.capsule.research_lock import Package, lock_version
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.errors import AgentDraining
from agent_builder.protocol.ids import AgentId
from agent_builder.protocol.limits import RESEARCH_INSTALL_S
from agent_builder.protocol.ports import Clock
from agent_builder.runs.active import ActiveRuns
from agent_builder.runs.workers import Spawn

_INSTALLING = "This Agent's research environment is being installed; send again when that has ended."
_REMOVING = "This Agent's research environment is being removed; send again in a moment."
_FULL = (errno.ENOSPC, errno.EDQUOT)
_log = logging.getLogger(__name__)


class ResearchState(StrEnum):
    ABSENT = "absent"
    INSTALLING = "installing"
    INSTALLED = "installed"
    REMOVING = "removing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """Packages fetched and in place, of how many; 0 of 0 until the installation has its turn. `elapsed_s`: since it was asked for."""

    step: Literal["waiting"] | Step
    packages_done: int
    packages_total: int
    elapsed_s: int


@dataclass(frozen=True, slots=True)
class ResearchStatus:
    """`version`, `packages` and `installed_at` of what is installed. `outdated`: something is installed, but for another version of
    this program or of Python, and no Run uses it. `error`: why the last installation failed."""

    state: ResearchState
    version: str | None = None
    packages: tuple[Package, ...] | None = None
    installed_at: datetime | None = None
    outdated: bool = False
    progress: Progress | None = None
    error: FaultCode | None = None


@dataclass(slots=True)
class _Work:
    """One change in progress. `task`: what installs. `over` is set when nothing of it goes on."""

    state: ResearchState
    begun: float
    step: Literal["waiting"] | Step = "waiting"
    done: int = 0
    total: int = 0
    task: "asyncio.Task[None] | None" = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, step: Step, done: int, total: int) -> None:
        self.step, self.done, self.total = step, done, total


class ResearchEnvs:
    """`start_task`: in a TaskGroup that outlives requests. One installation at a time; others wait for their turn."""

    def __init__(self, checkout: Checkout, source: PackageSource, clock: Clock, active: ActiveRuns, start_task: Spawn) -> None:
        self._checkout = checkout
        self._source = source
        self._clock = clock
        self._active = active
        self._start_task = start_task
        self._turn = asyncio.Lock()  # two installers at once would share the network and the disk, and both be late
        self._work: dict[str, _Work] = {}
        self._failed: dict[str, FaultCode] = {}

    def changing(self, agent_id: str) -> bool:
        return agent_id in self._work

    def status(self, agent_id: AgentId) -> ResearchStatus:
        work = self._work.get(agent_id)
        if work is not None:
            return ResearchStatus(work.state, progress=self._progress(work))
        found = recorded(self._checkout, agent_id)
        outdated = found is not None and found.version != lock_version(self._checkout.research_lock)
        if found is not None and not outdated:
            return _installed(found)
        if agent_id in self._failed:
            return ResearchStatus(ResearchState.FAILED, outdated=outdated, error=self._failed[agent_id])
        return ResearchStatus(ResearchState.ABSENT, outdated=outdated)

    def install(self, agent_id: AgentId) -> ResearchStatus:
        """Begins; what is installed or being installed already stays as it is. Raises AgentBusy while a Run of the Agent is active,
        AgentDraining while it is being removed."""
        now = self.status(agent_id)
        if now.state in (ResearchState.INSTALLED, ResearchState.INSTALLING):
            return now
        if now.state is ResearchState.REMOVING:
            raise AgentDraining(_REMOVING)
        work = self._begin(agent_id, ResearchState.INSTALLING, _INSTALLING)
        work.task = self._start_task(self._carried(agent_id, work))
        work.task.add_done_callback(lambda _: self._end(agent_id))  # also of one that is cancelled before it begins
        return self.status(agent_id)

    async def remove(self, agent_id: AgentId) -> None:
        """Ends an installation in progress, then removes what is there. Raises AgentBusy."""
        work = self._work.get(agent_id)
        if work is not None and work.state is ResearchState.REMOVING:
            await work.over.wait()
            return
        await self.stop(agent_id)
        self._begin(agent_id, ResearchState.REMOVING, _REMOVING)
        try:
            await asyncio.to_thread(remove, self._checkout, agent_id)
        finally:
            self._end(agent_id)

    async def stop(self, agent_id: str) -> None:
        """Ends an installation and waits for a removal: returns when nothing of a change goes on."""
        work = self._work.get(agent_id)
        if work is None:
            return
        if work.task is not None:
            work.task.cancel()
        await work.over.wait()

    def forget(self, agent_id: str) -> None:
        """After the Agent is deleted."""
        self._failed.pop(agent_id, None)

    # Work

    def _begin(self, agent_id: AgentId, state: ResearchState, reason: str) -> _Work:
        self._active.fence(agent_id, reason)
        self._failed.pop(agent_id, None)
        work = self._work[agent_id] = _Work(state, self._clock.monotonic())
        return work

    def _end(self, agent_id: AgentId) -> None:
        self._active.unfence(agent_id)
        self._work.pop(agent_id).over.set()

    async def _carried(self, agent_id: AgentId, work: _Work) -> None:
        try:
            await self._install(agent_id, work)
        except InstallFailed as failure:
            self._failed[agent_id] = failure.code
        except OSError as error:
            _log.error("the research environment of Agent %s, %s: %s", agent_id, work.step, error.strerror)
            self._failed[agent_id] = "disk_full" if error.errno in _FULL else "internal"
        except Exception:  # noqa: BLE001 - logged; what fails for one Agent must not fell the others
            _log.exception("the research environment of Agent %s", agent_id)
            self._failed[agent_id] = "internal"

    async def _install(self, agent_id: AgentId, work: _Work) -> None:
        async with self._turn:
            try:
                async with self._clock.timeout(RESEARCH_INSTALL_S):
                    made = await install(self._checkout, agent_id, self._source, self._clock, work.tell)
            except TimeoutError as error:
                _log.error("the research environment of Agent %s took more than %s s, %s", agent_id, RESEARCH_INSTALL_S, work.step)
                raise InstallFailed("too_long") from error
        _log.info("Agent %s has a research environment of %s packages", agent_id, len(made.packages))

    def _progress(self, work: _Work) -> Progress | None:
        if work.state is ResearchState.REMOVING:
            return None
        return Progress(work.step, work.done, work.total, int(self._clock.monotonic() - work.begun))


def _installed(found: ResearchEnv) -> ResearchStatus:
    return ResearchStatus(ResearchState.INSTALLED, version=found.version, packages=found.packages, installed_at=found.installed_at)
