"""The lifecycle lock: one start or stop of a checkout at a time. It ends with its process, so no dead lock is left."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_builder.ops.outcome import EXIT_BUSY, Refused
from agent_builder.protocol.limits import LIFECYCLE_WAIT_S, LOCK_LOOK_S


@contextmanager
def lifecycle_lock(control_plane: Path) -> Iterator[None]:
    """Waits a bounded time. Raises Refused when another start or stop does not end."""
    control_plane.mkdir(mode=0o700, parents=True, exist_ok=True)
    until = time.monotonic() + LIFECYCLE_WAIT_S
    with (control_plane / "lifecycle.lock").open("a") as file:
        while not _taken(file.fileno()):
            if time.monotonic() >= until:
                raise Refused("another start or stop of this checkout is busy; try again when it has ended", EXIT_BUSY)
            time.sleep(LOCK_LOOK_S)
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
