"""Waits for work that must not be cut, however often the waiter is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """What `work` gave, and whether the waiter was cancelled meanwhile: that does not cut it. If it fails then, it is the
    cancellation that is raised."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and task.exception() is not None:
        raise asyncio.CancelledError from task.exception()
    return task.result(), cancelled
