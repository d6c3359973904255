"""The test build of the Gateway process: the real program with a movable clock and failpoints, driven over stdin.

Each line of stdin is one JSON object: {"advance": seconds} moves the clock, {"kill_at_commit": n, "when": "before"|"after"}
ends the process with SIGKILL at the n-th next transaction. Every command is answered by one line on stdout; the first line
says that the port is open: {"port": n}. Transactions are counted and named on request: {"commits": true}.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from agent_builder.__main__ import serve
from agent_builder.settings import read_settings
from agent_builder.storage.database import Database
from tests.support.clock import MovableClock


class Failpoints:
    """Wraps Database.run, where every durable boundary is."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.left = 0
        self.when = "before"
        self._run = Database.run

    def install(self) -> None:
        failpoints = self
        original = self._run

        async def run(database: Database, fn: Callable[..., Any], *, terminal: bool = False) -> Any:
            failpoints.names.append(fn.__qualname__)
            last = failpoints.left == 1
            failpoints.left = max(0, failpoints.left - 1)
            if last and failpoints.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = await original(database, fn, terminal=terminal)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        Database.run = run  # type: ignore[method-assign]


async def main() -> int:
    clock, failpoints = MovableClock(), Failpoints()
    failpoints.install()
    settings = read_settings(os.environ)

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
            if "kill_at_commit" in command:
                failpoints.left, failpoints.when = command["kill_at_commit"], command["when"]
            say({"commits": failpoints.names} if "commits" in command else {"done": True})

    status = await serve(settings, clock=clock, opened=opened)
    for task in listening:
        task.cancel()
    return status


def say(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
