"""Removes what a dead Gateway left of its Runs and Tasks: processes that still live, and roots that none uses."""

import os
import shutil
import signal
import time
from pathlib import Path

from agent_builder.protocol.limits import WORKER_GRACE_S
from agent_builder.sandbox.process_identity import ProcessIdentity, identify, is_alive, send_signal


def remove_leftovers(*parents: Path) -> None:
    """Before any Run is started. Every directory below `parents` is a root of a dead Gateway's Worker or command: whoever
    still works in one is that process, and is killed by its identity before the directory goes."""
    for parent in parents:
        for root in sorted(parent.iterdir()) if parent.is_dir() else ():
            users = _working_in(root)
            for user in users:
                send_signal(user, signal.SIGKILL)
            _await_end(users)
            shutil.rmtree(root)


def _working_in(root: Path) -> list[ProcessIdentity]:
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            place = os.readlink(f"/proc/{name}/cwd")
            if place == str(root) or place.startswith(f"{root}/"):
                found.append(identify(int(name)))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue  # ended meanwhile, or not ours
    return found


def _await_end(users: list[ProcessIdentity]) -> None:
    """Start-up only, before the event loop serves anybody."""
    until = time.monotonic() + WORKER_GRACE_S
    while any(map(is_alive, users)) and time.monotonic() < until:
        time.sleep(0.01)
    if any(map(is_alive, users)):
        raise OSError("a process of the last Gateway cannot be ended")
