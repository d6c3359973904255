"""A real Gateway in front of a running embedded model server, in one checkout."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.embedded_model import embedded_server
from tests.support.gateway import GATEWAY_ROOT, Gateway

READY_S = 600


@asynccontextmanager
async def embedded_gateway(folder: Path, *modes: str, change: Callable[[str], str] = str) -> AsyncIterator[Gateway]:
    """`change`: of the catalog that the server wrote. The client waits as long as a small machine needs."""
    checkout = folder / GATEWAY_ROOT
    checkout.mkdir()
    with embedded_server(checkout, *modes) as server:
        async with Gateway(folder, 0, catalog_text=change(server.catalog.read_text()), ready_s=READY_S) as gateway:
            gateway.client.timeout = None  # type: ignore[assignment]  # setter and getter have different types
            yield gateway
