"""The directory of one confined program, beside the run root: made for it, removed after it with all that is in it."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from agent_builder.protocol.to_the_end import to_the_end

T = TypeVar("T")
_PRIVATE = 0o700


@asynccontextmanager
async def private_directory(directory: Path) -> AsyncIterator[Path]:
    """Removed in every case, with all that is in it."""
    try:
        await in_a_thread(directory.mkdir, _PRIVATE)
        yield Path(os.path.realpath(directory))
    finally:
        if directory.exists():
            await in_a_thread(shutil.rmtree, directory)


async def in_a_thread(work: Callable[..., T], *arguments: object) -> T:
    """A cancelled thread goes on: who waits for it leaves only when it is done, or it would write into what is being removed."""
    result, cancelled = await to_the_end(asyncio.to_thread(work, *arguments))
    if cancelled:
        raise asyncio.CancelledError
    return result
