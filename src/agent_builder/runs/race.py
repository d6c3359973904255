"""Run one piece of work beside watchers that may end it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def guarded(work: Coroutine[Any, Any, T], *watchers: Coroutine[Any, Any, None]) -> T:
    """The result of `work`. A watcher that raises while it is not there yet ends it with that error; one that returns is simply
    done. Every task has ended when this returns or raises, whatever the reason."""
    main = asyncio.create_task(work)
    tasks: set[asyncio.Task[Any]] = {main, *map(asyncio.create_task, watchers)}
    running = tasks
    try:
        while not main.done():
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            if main not in done:
                for task in done:
                    task.result()
        return main.result()
    finally:
        await _end(tasks)


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
