"""What a fault of SQLite means to the operator: no space, a damaged file, or a file that another program holds."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from agent_builder.protocol.errors import AgentBuilderError, AgentDamaged, Internal, StorageFull

# A device without space shows as FULL for a page, and as one of these where SQLite grows its files by other calls.
_NO_SPACE = frozenset({
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP,
})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR})
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PRIMARY = 0xFF


@contextmanager
def storage_faults() -> Iterator[None]:
    """Turns faults of SQLite and of a full device into StorageFull, AgentDamaged or Internal (locked); others pass."""
    try:
        yield
    except sqlite3.Error as error:
        meaning = _meaning(getattr(error, "sqlite_errorcode", None))
        if meaning is None:
            raise
        raise meaning from error
    except OSError as error:
        if is_full(error):
            raise StorageFull from error
        raise


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _meaning(code: int | None) -> AgentBuilderError | None:
    if code is None:
        return None
    if code in _NO_SPACE:
        return StorageFull()
    if code & _PRIMARY in _DAMAGED:
        return AgentDamaged()
    if code & _PRIMARY in _LOCKED:
        return Internal("Another program holds the database.")
    return None
