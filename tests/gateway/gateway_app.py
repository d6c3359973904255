"""The Gateway's application over the real rooms, in this process: only the model server is none, or one that never answers."""

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

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
from agent_builder.gateway.access_token import AccessToken
from agent_builder.gateway.answers import HealthAnswer, HealthModel, HealthSandbox
from agent_builder.gateway.server import build_gateway
from agent_builder.gateway.services import Services
from agent_builder.llm.broker import ModelBroker
from agent_builder.llm.catalog import load_catalog
from agent_builder.llm.models import Models
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID
from agent_builder.runs.active import ActiveRuns
from agent_builder.runs.live import LiveRuns
from agent_builder.runs.workers import Workers
from agent_builder.tasks.subagents import Delegations
from tests.support.clock import MovableClock
from tests.support.gateway import PROJECT, catalog

TOKEN = "0123456789abcdef" * 4
REVEAL_TOKEN = "fedcba9876543210" * 4
ORIGIN = "http://127.0.0.1:20815"
AGENT = f"/api/agents/{SYSTEM_AGENT_ID}"
Json = dict[str, Any]


@dataclass
class OpenGateway:
    """`client` has a session; `csrf` is its token."""

    app: Starlette
    services: Services
    active: ActiveRuns
    live: LiveRuns
    bus: CommandBus
    clock: MovableClock
    client: httpx.AsyncClient
    csrf: str = ""

    def other_client(self, peer: str = "127.0.0.1") -> httpx.AsyncClient:
        """A browser that is not logged in, at this address."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app, client=(peer, 1)), base_url=ORIGIN)

    async def login(self) -> None:
        answer = await self.client.post("/api/login", json={"token": TOKEN}, headers={"Origin": ORIGIN})
        assert answer.status_code == 200, answer.text
        self.csrf = answer.json()["csrf_token"]

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        """As the page would send it; `headers` with underscores replace its own, or take them away when empty."""
        sent = {"Origin": ORIGIN, "X-CSRF-Token": self.csrf}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        return await self.client.request(method, path, json=body, headers={name: value for name, value in sent.items() if value})

    async def ok(self, method: str, path: str, body: object = None) -> Any:
        response = await self.call(method, path, body)
        assert 200 <= response.status_code < 300, f"{method} {path}: {response.status_code} {response.text[:300]}"
        return response.json() if response.content else None

    async def conversation(self, **body: str) -> str:
        return str((await self.ok("POST", f"{AGENT}/sessions", body))["conversation_id"])

    async def submit(self, conversation: str, message: str = "hello", **more: object) -> Json:
        return dict(await self.ok("POST", f"{AGENT}/sessions/{conversation}/runs", {"message": message, **more}))


@asynccontextmanager
async def silent_provider() -> AsyncIterator[int]:
    """The port of a model server that takes every request and never answers."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1024):
                pass
        finally:
            writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@asynccontextmanager
async def open_gateway(root: Path, provider_port: int | None = None, *, reveal: bool = False) -> AsyncIterator[OpenGateway]:
    """Without a provider every Run fails with model_unavailable."""
    clock, checkout = MovableClock(), Checkout(root.resolve())
    entries = root / "models.toml"
    entries.write_text(catalog(provider_port or closed_port()))
    entries.chmod(0o600)
    async with AsyncExitStack() as stack:
        start = await stack.enter_async_context(_tasks())
        models = Models(load_catalog(entries), clock, checkout.cache)
        stack.push_async_callback(models.close)
        models._first_load.set()  # nothing is loaded here: no Turn shall wait for it
        active = ActiveRuns(start)

        async def engine_for(agent_id: str) -> QueryEngines:
            return (await registry.runtime(agent_id)).engines

        delegations = Delegations(agents=lambda: registry.usable(), engine_for=engine_for, active=active, clock=clock, start_task=start)  # noqa: PLW0108 - made below
        shared = SharedParts(
            checkout=checkout, clock=clock, live=LiveRuns(), active=active, workers=Workers(clock, start, keep_spare=False),
            models=models, broker=ModelBroker(models, clock), page_key=bytes(32), semantic_summary=False, context_reveal=reveal,
            delegations=delegations, start_task=start,
        )
        registry = await _registry(shared, start, stack)
        services = _services(shared, registry, reveal)
        app = build_gateway(services)
        client = await stack.enter_async_context(httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN))
        gateway = OpenGateway(app, services, shared.active, shared.live, services.bus, clock, client)
        stack.push_async_callback(shared.active.idle)
        stack.callback(shared.active.cancel_all)
        await gateway.login()
        yield gateway


async def _registry(shared: SharedParts, start: Any, stack: AsyncExitStack) -> AgentRegistry:
    database = await open_registry_database(shared.checkout)
    stack.push_async_callback(database.close)
    lifecycle = Lifecycle(
        checkout=shared.checkout, database=database, clock=shared.clock, write_worker_env=write_worker_env,
        verify_worker_env=verify_worker_env, restore_instructions=restore_default,
    )
    registry = AgentRegistry(
        lifecycle, open_runtime=lambda row: open_runtime(row.agent_id, row.generation, shared), drain=shared.active.drain,
        active_runs=lambda agent_id: len(shared.active.of_agent(agent_id)), delete_children=shared.delegations.delete_children,
        research=ResearchEnvs(shared.checkout, PackageSource(None, {}), shared.clock, shared.active, start),
        spawn=start,
    )
    stack.push_async_callback(registry.close)
    await registry.start()
    return registry


def _services(shared: SharedParts, registry: AgentRegistry, reveal: bool) -> Services:
    health = HealthAnswer(
        status="ready", release="0.2.0", prototype=True, model=HealthModel(ready=True), sandbox=HealthSandbox(ready=True), active_runs=0,
        spare_workers=0,
    )
    bus = command_bus(registry, shared.active, shared.models)
    return Services(
        registry=registry, bus=bus, models=shared.models, live=shared.live, clock=shared.clock, web=PROJECT / "web", port=20815,
        host_names=frozenset({"localhost"}), access_token=AccessToken(TOKEN), reveal_token=AccessToken(REVEAL_TOKEN) if reveal else None,
        health=lambda: replace_status(health, bus),
    )


def replace_status(health: HealthAnswer, bus: CommandBus) -> HealthAnswer:
    return health.model_copy(update={"status": "draining" if bus.draining else "ready"})


@asynccontextmanager
async def _tasks() -> AsyncIterator[Any]:
    running: set[asyncio.Task[None]] = set()

    def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        running.add(task)
        task.add_done_callback(running.discard)
        return task

    yield start
    await asyncio.gather(*running)
