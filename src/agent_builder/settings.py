"""Settings: everything the environment may say, read once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.limits import GATEWAY_PORT

_PACKAGE_VARIABLES = (
    "UV_DEFAULT_INDEX", "UV_INDEX_URL", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)
DEFAULT_PORT = GATEWAY_PORT
HIGHEST_PORT = (1 << 16) - 1


class SettingsError(Exception):
    """One clear line about a wrong environment variable."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`downloads`: a folder of package files that is looked into first. `package_environment`: where packages come from, for the one
    program that fetches them."""

    checkout: Checkout
    host: str
    port: int
    catalog: Path
    allowed_hosts: tuple[str, ...]
    semantic_summary: bool
    context_reveal: bool
    downloads: Path | None
    package_environment: Mapping[str, str]


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
        downloads=Path(environment["AGENT_BUILDER_DOWNLOADS"]).resolve() if environment.get("AGENT_BUILDER_DOWNLOADS") else None,
        package_environment={name: environment[name] for name in _PACKAGE_VARIABLES if environment.get(name)},
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= HIGHEST_PORT:
        raise SettingsError(f"AGENT_BUILDER_PORT is {text[:20]!r}, expected a number from 1 to {HIGHEST_PORT}")
    return int(text)
