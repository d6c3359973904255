"""A Worker that is a coroutine of the test at the other end of a real pipe pair: the host's side of the IPC is the real one.

    async def attack(link: Link) -> None:
        start = await link.frame()
        link.write(b"anything")

    await bench.run(Piped(attack))
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from agent_builder.protocol.frames import HostFrame, WorkerFrame, parse_host, to_message
from agent_builder.protocol.framing import decode_frame, encode_frame
from agent_builder.protocol.limits import IPC_FRAME_BYTES
from agent_builder.protocol.tool_catalog import CATALOG
from agent_builder.runs.worker_process import WorkerHome, WorkerProcess
from agent_builder.sandbox.process_identity import ProcessIdentity
from agent_builder.worker.kernel import HarnessKernel
from tests.support.clock import MovableClock

NOBODY = ProcessIdentity(0, 0, "")


class Link:
    """The Worker's end. Leaving the attack closes both pipes; the host's closing ends the attack."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sent = 0
        self._reader = reader
        self._writer = writer

    async def frame(self) -> HostFrame:
        return parse_host(decode_frame(await self._reader.readuntil()))

    def write(self, data: bytes) -> None:
        """Without waiting: what the host does not read stays in a buffer."""
        self.sent += 1
        self._writer.write(data)

    def send(self, *frames: WorkerFrame) -> None:
        for frame in frames:
            self.write(encode_frame(to_message(frame)))

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


Attack = Callable[[Link], Awaitable[None]]


async def behave(link: Link) -> None:
    """What the real Worker does after READY."""
    kernel = HarnessKernel(CATALOG)
    while not kernel.finished:
        link.send(*kernel.step(await link.frame()))


class _Process:
    """As much of asyncio's Process as WorkerProcess looks at. It ends when the attack ends, or when its stdin is closed."""

    def __init__(self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, attack: "asyncio.Task[int]") -> None:
        self.pid = 0
        self.stdin = _Stdin(stdin, attack)
        self.stdout = stdout
        self.stderr = asyncio.StreamReader()
        self.stderr.feed_eof()
        self._attack = attack

    @property
    def returncode(self) -> int | None:
        return self._attack.result() if self._attack.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._attack)


class _Stdin:
    def __init__(self, writer: asyncio.StreamWriter, attack: "asyncio.Task[int]") -> None:
        self._writer = writer
        self._attack = attack

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()
        self._attack.cancel()


class Piped:
    """Stands for `Workers`: every Run gets `attack` as its Worker. `host`: the host's side of the last one."""

    def __init__(self, attack: Attack) -> None:
        self.host: WorkerProcess | None = None
        self.sent = 0
        self._attack = attack

    @asynccontextmanager
    async def worker(self, worker_env: Path, root: Path) -> AsyncIterator[WorkerProcess]:
        root.mkdir(mode=0o700)
        async with piped(self._attack, WorkerHome(worker_env, root)) as (host, link):
            self.host = host
            try:
                yield host
            finally:
                self.sent = link.sent
                await host.close()

    def park(self, worker_env: Path, spares: Path) -> None:
        """No spare."""


@asynccontextmanager
async def piped(attack: Attack, home: WorkerHome) -> AsyncIterator[tuple[WorkerProcess, Link]]:
    """The host's side of a pipe pair, and the attack that runs at the other side."""
    to_worker, to_host = os.pipe(), os.pipe()
    host_in, host_out = await _reader(to_host[0]), await _writer(to_worker[1])
    link = Link(await _reader(to_worker[0]), await _writer(to_host[1]))
    playing = asyncio.create_task(_play(attack, link))
    process = _Process(host_out, host_in, playing)
    host = WorkerProcess(cast(asyncio.subprocess.Process, process), NOBODY, home, MovableClock())
    try:
        yield host, link
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        for stream in (host_in, link._reader):
            cast(Any, stream)._transport.close()
        host_out.close()
        link.close()


async def _play(attack: Attack, link: Link) -> int:
    """The exit status: 3 when the host was gone, as the real Worker has it."""
    try:
        await attack(link)
        await link.drain()
    except (asyncio.CancelledError, asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
        return 3
    finally:
        link.close()
    return 0


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=IPC_FRAME_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0))
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", 0))
    return asyncio.StreamWriter(transport, protocol, None, loop)
