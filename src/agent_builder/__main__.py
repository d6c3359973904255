"""`python -m agent_builder`: the Gateway process. One clear line on stderr and exit status 1 when it cannot start."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from agent_builder.app import App, StartRefused, open_app
from agent_builder.gateway.connection import GatewayConnection
from agent_builder.protocol.limits import STOP_FORCED_S, STOP_S
from agent_builder.protocol.ports import Clock
from agent_builder.settings import Settings, SettingsError, read_settings
from agent_builder.system_clock import SystemClock

_CLOSE_S = 3  # of STOP_S: for connections to end after the streams have


async def serve(settings: Settings, *, clock: Clock | None = None, opened: Callable[[], None] = lambda: None) -> int:
    """Runs until SIGTERM or SIGINT (an orderly stop) or SIGUSR1 (a short one). `opened` is called once the port is open.
    Raises StartRefused."""
    os.umask(0o077)  # whatever is written from here on is the operator's alone
    listener = _bind(settings.host, settings.port)
    with contextlib.closing(listener):
        async with open_app(settings, clock or SystemClock()) as app:
            server = _Server(app, opened)
            await server.serve(sockets=[listener])
    return 0


class _Server(uvicorn.Server):
    """uvicorn with our own idea of a signal: first the Runs end, then the streams, then the connections."""

    def __init__(self, app: App, opened: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app.asgi, lifespan="off", log_config=None, access_log=False, ws="none", http=GatewayConnection, loop="uvloop",
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=_CLOSE_S,
        )
        super().__init__(config)
        self._app = app
        self._opened = opened
        self._stopping: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number, limit in ((signal.SIGTERM, STOP_S), (signal.SIGINT, STOP_S), (signal.SIGUSR1, STOP_FORCED_S)):
            loop.add_signal_handler(number, self._stop, limit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # what is here now stays: no collection looks at it again, which would stop every stream for 30 ms
        self._app.started()
        self._opened()

    def _stop(self, limit_s: int) -> None:
        """The first signal begins an orderly end; a later, shorter one only makes the waiting shorter."""
        asyncio.get_running_loop().call_later(limit_s - _CLOSE_S, self._hurry)
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        await self._app.stop()
        self.should_exit = True

    def _hurry(self) -> None:
        self.should_exit = self.force_exit = True


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))  # not listening yet: a connection before the port is open is refused, not held
    except OSError as error:
        listener.close()
        raise StartRefused(f"port {port} cannot be used: {error.strerror}. Stop what uses it, or set AGENT_BUILDER_PORT.") from error
    return listener


def main() -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        return uvloop.run(serve(read_settings()))
    except (SettingsError, StartRefused) as error:
        print(f"agent-builder: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
