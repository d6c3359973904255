"""What the Gateway is given: every opened thing that a route may reach."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_builder.agents.registry import AgentRegistry
from agent_builder.commands.bus import CommandBus
from agent_builder.gateway.access_token import AccessToken
from agent_builder.gateway.answers import HealthAnswer
from agent_builder.llm.models import Models
from agent_builder.protocol.ports import Clock
from agent_builder.runs.live import LiveRuns


@dataclass(frozen=True, slots=True)
class Services:
    """`web`: the page's files. `port`: names the cookie. `host_names`: names beside IP literals under which the page may be
    opened. `reveal_token`: None while the diagnostic reveal is off. `health`: the full answer, made anew for each request."""

    registry: AgentRegistry
    bus: CommandBus
    models: Models
    live: LiveRuns
    clock: Clock
    web: Path
    port: int
    host_names: frozenset[str]
    access_token: AccessToken
    reveal_token: AccessToken | None
    health: Callable[[], HealthAnswer]
