"""The composition root: builds every room from the settings and hands over the ports. Known by none but __main__."""

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from agent_builder.agents.lifecycle import Lifecycle, open_registry_database
from agent_builder.agents.registry import AgentRegistry
from agent_builder.agents.research_envs import ResearchEnvs
from agent_builder.agents.runtime import SharedParts, open_runtime
from agent_builder.capsule.instructions import restore_default
from agent_builder.capsule.research_install import PackageSource
from agent_builder.capsule.worker_env import verify_worker_env, write_worker_env
from agent_builder.commands.bus import CommandBus
from agent_builder.commands.carriers import command_bus
from agent_builder.conversations.engines import QueryEngines
from agent_builder.conversations.planning import window_fault
from agent_builder.conversations.warm_up import warm_up_request
from agent_builder.gateway.access_token import AccessToken, AccessTokenUnusable, read_access_token
from agent_builder.gateway.answers import HealthAnswer, HealthModel, HealthSandbox
from agent_builder.gateway.server import build_gateway
from agent_builder.gateway.services import Services
from agent_builder.llm.broker import ModelBroker
from agent_builder.llm.catalog import CatalogError, load_catalog
from agent_builder.llm.models import Models
from agent_builder.protocol.delegation import OtherAgent
from agent_builder.protocol.errors import AgentBuilderError
from agent_builder.protocol.ids import SYSTEM_AGENT_ID
from agent_builder.protocol.limits import DRAIN_S
from agent_builder.protocol.ports import Clock
from agent_builder.runs.active import ActiveRuns
from agent_builder.runs.live import LiveRuns
from agent_builder.runs.workers import Spawn, Workers
from agent_builder.sandbox.inspection import harden_gateway
from agent_builder.sandbox.qualify import qualify
from agent_builder.settings import Settings
from agent_builder.storage.private_files import replace_private
from agent_builder.tasks.subagents import Delegations

RELEASE = "0.2.0"
log = logging.getLogger(__name__)


class StartRefused(Exception):
    """The one clear line why the Gateway does not start, and what to do."""


@dataclass(frozen=True, slots=True)
class App:
    """The running system, made by `open_app`; stores are closed when that block is left. `started` is called once the
    port is open: it begins what may take long."""

    asgi: ASGIApp
    bus: CommandBus
    active: ActiveRuns
    live: LiveRuns
    registry: AgentRegistry
    started: Callable[[], object]

    async def stop(self) -> None:
        """Refuses new work, ends the Runs (their terminals are delivered) and the Tasks, then ends every stream with `gone`."""
        self.bus.drain()
        self.active.cancel_all()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(self.active.idle(), self.registry.end_tasks())
        await self.active.abandon()
        self.live.end_all()


@asynccontextmanager
async def open_app(settings: Settings, clock: Clock) -> AsyncIterator[App]:
    """Everything that must hold before the port opens, in this order: sandbox, model, recovery. Raises StartRefused."""
    async with AsyncExitStack() as stack:
        try:
            app = await _build(settings, clock, stack)
        except (AccessTokenUnusable, CatalogError) as error:
            raise StartRefused(str(error)) from error
        except AgentBuilderError as error:
            raise StartRefused(error.message) from error
        yield app


async def _build(settings: Settings, clock: Clock, stack: AsyncExitStack) -> App:
    harden_gateway()
    checkout = settings.checkout
    token = _access_token(checkout.bootstrap_token)
    reveal = _access_token(checkout.reveal_token) if settings.context_reveal else None
    catalog = load_catalog(settings.catalog, root=checkout.root)
    if catalog.notice:
        log.warning("%s", catalog.notice)
    await _qualify_sandbox(checkout.qualification)
    models = Models(catalog, clock, checkout.cache, window_fault)
    stack.push_async_callback(models.close)
    await models.qualify_default()

    start_task = await stack.enter_async_context(_background())
    live, active, workers = LiveRuns(), ActiveRuns(start_task), Workers(clock, start_task)

    def agents() -> Sequence[OtherAgent]:
        return registry.usable()

    async def engine_for(agent_id: str) -> QueryEngines:
        return (await registry.runtime(agent_id)).engines

    delegations = Delegations(agents=agents, engine_for=engine_for, active=active, clock=clock, start_task=start_task)
    shared = SharedParts(
        checkout=checkout, clock=clock, live=live, active=active, workers=workers, models=models,
        broker=ModelBroker(models, clock), page_key=secrets.token_bytes(), semantic_summary=settings.semantic_summary,
        context_reveal=settings.context_reveal, start_task=start_task, delegations=delegations,
    )
    source = PackageSource(settings.downloads, settings.package_environment)
    research = ResearchEnvs(checkout, source, clock, active, start_task)
    registry = await _open_registry(shared, research, start_task, stack)
    bus = command_bus(registry, active, models)
    services = Services(
        registry=registry, bus=bus, models=models, live=live, clock=clock, web=checkout.web, port=settings.port,
        host_names=frozenset({"localhost", socket.gethostname().lower(), *settings.allowed_hosts}), access_token=token,
        reveal_token=reveal, health=lambda: _health(bus, models, active, workers),
    )
    return App(
        asgi=build_gateway(services), bus=bus, active=active, live=live, registry=registry,
        started=lambda: start_task(_load_model(shared, registry)),
    )


@asynccontextmanager
async def _background() -> AsyncIterator[Spawn]:
    """Starts tasks that outlive a request. What still runs when the block is left is cancelled: an orderly stop has ended
    the Runs before."""
    running: set[asyncio.Task[None]] = set()
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:

        def start(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
            task = group.create_task(work)
            running.add(task)
            task.add_done_callback(running.discard)
            return task

        try:
            yield start
        except BaseException as error:  # noqa: BLE001 - raised again below, not as a part of a group
            failure = error
        for task in [*running]:
            task.cancel()
    if failure is not None:
        raise failure


async def _open_registry(shared: SharedParts, research: ResearchEnvs, start_task: Spawn, stack: AsyncExitStack) -> AgentRegistry:
    database = await open_registry_database(shared.checkout)
    stack.push_async_callback(database.close)
    lifecycle = Lifecycle(
        checkout=shared.checkout, database=database, clock=shared.clock, write_worker_env=write_worker_env,
        verify_worker_env=verify_worker_env, restore_instructions=restore_default,
    )
    registry = AgentRegistry(
        lifecycle, open_runtime=lambda row: open_runtime(row.agent_id, row.generation, shared), drain=shared.active.drain,
        active_runs=lambda agent_id: len(shared.active.of_agent(agent_id)), delete_children=shared.delegations.delete_children,
        research=research, spawn=start_task,
    )
    stack.push_async_callback(registry.close)
    stack.push_async_callback(shared.workers.close)
    for note in (await registry.start()).notes:
        log.info("%s", note)
    return registry


async def _qualify_sandbox(scratch: Path) -> None:
    """With an environment of its own, so that it needs no Agent and proves what this program would write."""
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    environment = scratch / "worker-env"
    try:
        verify_worker_env(environment)
    except AgentBuilderError:
        await asyncio.to_thread(write_worker_env, environment)
    await qualify(environment, scratch)


async def _load_model(shared: SharedParts, registry: AgentRegistry) -> None:
    """Loads the default model with the prefix that the default Agent's Turns begin with, then parks a Worker."""
    try:
        runtime = await registry.runtime(SYSTEM_AGENT_ID)
        model = await shared.models.qualified(None)
        counter = await shared.models.counter(model)
        shared.models.disable(model.model_id, window_fault(model, counter))
        await shared.models.load(model, await warm_up_request(runtime.workspace, model, counter, shared.clock, await runtime.surroundings(None)))
    except AgentBuilderError as error:
        log.warning("the model is not loaded: %s", error.message)
        shared.models.could_not_load(error)
        return
    shared.workers.park(runtime.worker_env, shared.checkout.spares(SYSTEM_AGENT_ID))


def _health(bus: CommandBus, models: Models, active: ActiveRuns, workers: Workers) -> HealthAnswer:
    default = next(model for model in models.public() if model.default)
    return HealthAnswer(
        status="draining" if bus.draining else models.state, release=RELEASE, prototype=True,
        model=HealthModel(ready=models.state == "ready", reason=default.reason_code), sandbox=HealthSandbox(ready=True),
        active_runs=active.count, spare_workers=workers.spare_count,
    )


def _access_token(path: Path) -> AccessToken:
    """The token of this file; a new one of 256 bits is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        replace_private(path, f"{secrets.token_hex()}\n".encode())
    return read_access_token(path)
