"""A directory for one confined command: made for it, and gone with all that is in it before anybody goes on."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from agent_builder.protocol.to_the_end import to_the_end

PRIVATE = 0o700
T = TypeVar("T")


@asynccontextmanager
async def private_directory(directory: Path) -> AsyncIterator[Path]:
    """Gives its resolved path. Removed in every case, with all that is in it. Raises OSError when it cannot be made."""
    try:
        await in_a_thread(directory.mkdir, PRIVATE)
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
