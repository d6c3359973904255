"""Database: one file, one writer thread, one reader thread.

A transaction is one function that runs whole in the writer's thread: one hop, one BEGIN IMMEDIATE..COMMIT. A cancelled
waiter does not cut it; it ends as if nobody had left. Reads have a connection and a thread of their own and see the last
commit; they never wait for the writer. Checkpoints run in a third thread, passively, so that no commit waits for them.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from agent_builder.protocol.errors import AgentDraining
from agent_builder.protocol.limits import CHECKPOINT_COMMITS, DATABASE_RESERVE_BYTES
from agent_builder.storage.faults import storage_faults
from agent_builder.storage.migrations import Migration
from agent_builder.storage.opening import connect, open_writer

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Database:
    """Made by `open`. The functions given to it must return whole values, never a cursor."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._writer, self._reader, self._checkpoints = (_Lane(path, name) for name in ("write", "read", "checkpoint"))
        self._commits = 0
        self._ending: Future[None] | None = None

    @staticmethod
    async def open(path: Path, migrations: Sequence[Migration], *, max_bytes: int) -> "Database":
        """Creates the file where it is missing. Raises AgentDamaged (and leaves the file alone), StorageFull."""
        database = Database(path, max_bytes)
        try:
            await database._writer.call(lambda lane: lane.use(_bounded(open_writer(path, migrations), max_bytes)))
        except BaseException:
            database._stop_threads()
            raise
        return database

    async def run(self, fn: Callable[[sqlite3.Connection], T], *, terminal: bool = False) -> T:
        """`fn` in one transaction; whatever it raises rolls back. Raises StorageFull without effect when disk or bound
        is full. `terminal` lifts the reserve that ordinary transactions leave."""
        self._must_be_open()
        limit = self._max_bytes if terminal else 0
        result = await self._writer.call(lambda lane: _transact(lane.connection, fn, limit, self._max_bytes))
        self._commits += 1
        if self._commits >= CHECKPOINT_COMMITS:
            self._commits = 0
            self._checkpoints.submit(_checkpoint)
        return result

    async def read(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """`fn` on one consistent state of the file; writing in it is an error."""
        self._must_be_open()
        return await self._reader.call(lambda lane: _consistent(lane, fn))

    async def close(self) -> None:
        """Ends after what was asked for before; then the WAL is empty. May be called again, also at the same time."""
        if self._ending is None:
            self._ending = self._writer.submit(self._finish)
            self._stop_threads()
        await asyncio.shield(asyncio.wrap_future(self._ending))

    # Details

    def _must_be_open(self) -> None:
        if self._ending is not None:
            raise AgentDraining

    def _finish(self, writer: "_Lane") -> None:
        for lane in (self._reader, self._checkpoints):
            lane.ended.result()
        with closing(writer.connection) as conn:
            try:
                conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:  # the WAL keeps every commit and is read at the next open
                _log.warning("checkpoint at close failed: %s", error.sqlite_errorname)

    def _stop_threads(self) -> None:
        for lane in (self._reader, self._checkpoints, self._writer):
            lane.stop()


class _Lane:
    """A thread that owns one connection. Work is done in the order in which it came."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite-{name}")
        self._connection: sqlite3.Connection | None = None
        self.ended: Future[None] = Future()

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self.path)
        return self._connection

    def use(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read_only(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self.path, read_only=True)
        return self._connection

    def submit(self, work: Callable[["_Lane"], T]) -> Future[T]:
        return self._pool.submit(work, self)

    async def call(self, work: Callable[["_Lane"], T]) -> T:
        return await asyncio.shield(asyncio.wrap_future(self.submit(work)))

    def stop(self) -> None:
        """After what is queued: closes the connection, ends the thread."""
        if not self.ended.running():
            self.ended.set_running_or_notify_cancel()
            self._pool.submit(self._end)
            self._pool.shutdown(wait=False)

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self.ended.set_result(None)


def _transact(
    conn: sqlite3.Connection, fn: Callable[[sqlite3.Connection], T], lifted: int, max_bytes: int
) -> T:
    with storage_faults():
        if lifted:
            _limit(conn, lifted)
        try:
            conn.execute("BEGIN IMMEDIATE")
            return _committed(conn, fn)
        finally:
            if lifted:
                _limit(conn, max_bytes - DATABASE_RESERVE_BYTES)


def _committed(conn: sqlite3.Connection, fn: Callable[[sqlite3.Connection], T]) -> T:
    try:
        result = fn(conn)
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise
    return result


def _consistent(lane: _Lane, fn: Callable[[sqlite3.Connection], T]) -> T:
    with storage_faults():
        conn = lane.read_only()
        conn.execute("BEGIN")
        return _committed(conn, fn)


def _checkpoint(lane: _Lane) -> None:
    """Passive: copies what it can without making anybody wait."""
    try:
        lane.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:  # nothing is lost: the WAL keeps it, and a later checkpoint copies it
        _log.warning("checkpoint failed: %s", error.sqlite_errorname)


def _bounded(conn: sqlite3.Connection, max_bytes: int) -> sqlite3.Connection:
    _limit(conn, max_bytes - DATABASE_RESERVE_BYTES)
    return conn


def _limit(conn: sqlite3.Connection, size: int) -> None:
    page: int = conn.execute("PRAGMA page_size").fetchone()[0]
    conn.execute(f"PRAGMA max_page_count={max(size // page, 1)}").fetchone()
