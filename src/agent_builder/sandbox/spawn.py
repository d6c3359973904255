"""Starts a child process without copying this one.

The event loop's own way forks: it copies the page tables of the whole Gateway, ten milliseconds in which no stream moves.
subprocess.Popen starts the same child by vfork in less than one. The result is asyncio's ordinary Process: its `wait` returns
when the process has ended and its pipes are closed.
"""

import asyncio
import os
import socket
import subprocess
from asyncio.base_subprocess import BaseSubprocessTransport
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


async def spawn(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], *, limit: int, stderr: int = PIPE,
    pass_fds: Sequence[int] = (), new_session: bool = True,
) -> Process:
    """A child with pipes on 0, 1 and (unless `stderr` says otherwise) 2, and no other descriptor of ours. `limit`: bytes of a
    line that its readers take. Call it on the main thread's loop. Raises OSError when it cannot be started; whoever is
    cancelled meanwhile leaves none behind."""
    loop = asyncio.get_running_loop()
    protocol = SubprocessStreamProtocol(limit, loop)
    connected: asyncio.Future[None] = loop.create_future()
    transport = _Transport(
        loop, protocol, list(command), False, PIPE, PIPE, stderr, 0, connected, cwd=directory, env=environment, pass_fds=pass_fds,
        start_new_session=new_session,
    )
    try:
        await asyncio.shield(connected)
    except BaseException:
        await asyncio.wait({connected})
        transport.close()
        await transport._wait()  # noqa: SLF001 -- of the base class; Process waits by it too
        raise
    return Process(transport, protocol, loop)


class _Transport(BaseSubprocessTransport):
    """asyncio's own transport of a child's pipes, on any loop."""

    _loop: asyncio.AbstractEventLoop

    def _start(self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **kwargs: Any) -> None:
        """For the base class. The child's stdin is a socket, as asyncio makes it: a loop sees the other end of one closing."""
        theirs, ours = socket.socketpair()
        with theirs, ours:
            process = subprocess.Popen(args, stdin=theirs.fileno(), stdout=stdout, stderr=stderr, bufsize=bufsize, **kwargs)
            try:
                descriptor = os.pidfd_open(process.pid)
            except OSError:
                process.kill()
                process.wait()
                raise
            process.stdin = open(os.dup(ours.fileno()), "wb", buffering=0)  # noqa: SIM115 -- the transport closes it
        self._proc = process
        self._loop.add_reader(descriptor, self._ended, descriptor)

    def _ended(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        assert self._proc is not None
        self._process_exited(self._proc.wait())
