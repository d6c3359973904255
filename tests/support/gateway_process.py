"""The test build of the Gateway process: the real program with a movable clock and failpoints, driven over stdin.

Each line of stdin is one JSON object: {"advance": seconds} moves the clock, {"kill_at_commit": n, "when": "before"|"after"}
ends the process with SIGKILL at the n-th next transaction, {"fail_at_commit": n} makes that one fail, {"full": true} refuses
every terminal's transaction as a full disk would until {"full": false}. Every command is answered by one line on stdout; the
first line says that the port is open: {"port": n}. Transactions are counted and named on request: {"commits": true}.
In the environment KILL_AT_COMMIT does the same during the start ("before"), and SEND_BUFFER gives the connections a send
buffer of that many bytes, as a slow network has; LANDLOCK_ABI is what an old kernel would say.
"""

import asyncio
import functools
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from agent_builder import __main__ as program
from agent_builder import app
from agent_builder.app import StartRefused
from agent_builder.protocol.errors import StorageFull
from agent_builder.settings import SettingsError, read_settings
from agent_builder.storage.database import Database
from tests.support.clock import MovableClock


class Failpoints:
    """Wraps Database.run, where every durable boundary is."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.left = int(os.environ.get("KILL_AT_COMMIT", "0"))
        self.when = "before"
        self.failing = 0
        self.full = False
        self._run = Database.run

    def install(self) -> None:
        failpoints = self
        original = self._run

        async def run(database: Database, fn: Callable[..., Any], *, terminal: bool = False) -> Any:
            failpoints.names.append(fn.__qualname__)
            failpoints.refuse(terminal)
            last = failpoints.left == 1
            failpoints.left = max(0, failpoints.left - 1)
            if last and failpoints.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = await original(database, fn, terminal=terminal)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        Database.run = run  # type: ignore[method-assign]

    def refuse(self, terminal: bool) -> None:
        if self.full and terminal:
            raise StorageFull
        self.failing -= 1
        if self.failing == 0:
            raise RuntimeError("a fault of the test")

    def obey(self, command: dict[str, Any]) -> None:
        if "kill_at_commit" in command:
            self.left, self.when = command["kill_at_commit"], command["when"]
        self.failing = command.get("fail_at_commit", self.failing)
        self.full = command.get("full", self.full)


async def main() -> int:
    clock, failpoints = MovableClock(), Failpoints()
    failpoints.install()
    settings = read_settings(os.environ)
    program._bind = small_buffers(program._bind)
    if "LANDLOCK_ABI" in os.environ:
        app.qualify = functools.partial(app.qualify, abi=lambda: int(os.environ["LANDLOCK_ABI"]))

    listening: list[asyncio.Task[None]] = []

    def opened() -> None:
        listening.append(asyncio.get_running_loop().create_task(obey()))
        say({"port": settings.port})

    async def obey() -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            command = json.loads(line)
            if "advance" in command:
                clock.advance(command["advance"])
            failpoints.obey(command)
            say({"commits": failpoints.names} if "commits" in command else {"done": True})

    status = await program.serve(settings, clock=clock, opened=opened)
    for task in listening:
        task.cancel()
    return status


def small_buffers(bind: Callable[[str, int], socket.socket]) -> Callable[[str, int], socket.socket]:
    def bound(host: str, port: int) -> socket.socket:
        listener = bind(host, port)
        if "SEND_BUFFER" in os.environ:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(os.environ["SEND_BUFFER"]))
        return listener

    return bound


def say(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (SettingsError, StartRefused) as error:
        sys.exit(f"agent-builder: {error}")
