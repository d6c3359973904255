"""Settings: everything the environment may say, read once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.limits import GATEWAY_PORT

DEFAULT_PORT = GATEWAY_PORT
HIGHEST_PORT = (1 << 16) - 1


class SettingsError(Exception):
    """One clear line about a wrong environment variable."""


@dataclass(frozen=True, slots=True)
class Settings:
    checkout: Checkout
    host: str
    port: int
    catalog: Path
    allowed_hosts: tuple[str, ...]
    semantic_summary: bool
    context_reveal: bool


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Raises SettingsError."""
    root = Path(environment.get("AGENT_BUILDER_ROOT") or Path(__file__).parents[2]).resolve()
    checkout = Checkout(root)
    return Settings(
        checkout=checkout,
        host=environment.get("AGENT_BUILDER_HOST", "0.0.0.0"),  # noqa: S104 - the workbench is meant for the operator's network
        port=_port(environment.get("AGENT_BUILDER_PORT", str(DEFAULT_PORT))),
        catalog=Path(environment.get("AGENT_BUILDER_MODEL_CATALOG") or checkout.default_catalog),
        allowed_hosts=tuple(host.strip().lower() for host in environment.get("AGENT_BUILDER_ALLOWED_HOSTS", "").split(",") if host.strip()),
        semantic_summary=environment.get("HARNESS_V2_SEMANTIC_SUMMARY_V2", "1") != "0",
        context_reveal=environment.get("HARNESS_V2_CONTEXT_REVEAL") == "1",
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= HIGHEST_PORT:
        raise SettingsError(f"AGENT_BUILDER_PORT is {text[:20]!r}, expected a number from 1 to {HIGHEST_PORT}")
    return int(text)
