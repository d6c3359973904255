"""Opens a database file: private, checked, migrated. Forward only, with a copy of the file before a migration changes it.

A file that does not pass is left as it is: AgentDamaged, nothing is deleted or repaired.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from agent_builder.protocol.errors import AgentDamaged
from agent_builder.protocol.limits import JOURNAL_SIZE_LIMIT_BYTES, QUICK_CHECK_BYTES, SQLITE_BUSY_MS, WAL_PAGES
from agent_builder.storage.faults import storage_faults
from agent_builder.storage.migrations import Migration
from agent_builder.storage.private_files import PRIVATE_FILE, sync


def open_writer(path: Path, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions begin where `transact` says so. Raises AgentDamaged, StorageFull."""
    with storage_faults():
        create_private(path)
        fresh = path.stat().st_size == 0
        conn = connect(path)
        try:
            if not fresh:
                _check(conn, path)
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=NORMAL")
            conn.execute("PRAGMA foreign_keys=ON")
            conn.execute(f"PRAGMA journal_size_limit={JOURNAL_SIZE_LIMIT_BYTES}")
            conn.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
            _migrate(conn, path, migrations)
        except BaseException:
            conn.close()
            raise
        return conn


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    mode = "ro" if read_only else "rw"
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}", uri=True, isolation_level=None, timeout=SQLITE_BUSY_MS / 1000
    )


def create_private(path: Path) -> None:
    """The file exists with mode 0600 before SQLite sees it, whatever the umask; SQLite gives -wal and -shm the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
    finally:
        os.close(descriptor)


def _check(conn: sqlite3.Connection, path: Path) -> None:
    """All pages of a file of ordinary size; of a larger one the schema, since its faults show when they are read."""
    table = "" if path.stat().st_size <= QUICK_CHECK_BYTES else "('sqlite_schema')"
    if conn.execute(f"PRAGMA quick_check{table}").fetchone()[0] != "ok":
        raise AgentDamaged


def _migrate(conn: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    version: int = conn.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        raise AgentDamaged("This database was written by a newer Agent Builder; nothing was changed.")
    if version == len(migrations):
        return
    if version:
        _copy(conn, path, len(migrations))
    conn.execute("BEGIN IMMEDIATE")
    try:
        for migration in migrations[version:]:
            migration(conn)
        conn.execute(f"PRAGMA user_version={len(migrations)}")
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise


def _copy(conn: sqlite3.Connection, path: Path, version: int) -> None:
    """`<name>.before-<version>` beside the file, whole or absent; copies before earlier versions go, so they cannot pile up."""
    copy = path.with_name(f"{path.name}.before-{version}")
    partial = path.with_name(f"{path.name}.copying")
    partial.unlink(missing_ok=True)
    create_private(partial)
    with closing(connect(partial)) as target:
        conn.backup(target)
    sync(partial)
    partial.replace(copy)
    sync(path.parent)
    for older in path.parent.glob(f"{path.name}.before-*"):
        if older != copy:
            older.unlink()
