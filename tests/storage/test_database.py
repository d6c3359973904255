import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_builder.protocol.errors import AgentDamaged, AgentDraining, Internal, StorageFull
from agent_builder.protocol.limits import CHECKPOINT_COMMITS, DATABASE_RESERVE_BYTES
from agent_builder.storage.conversations import list_conversations
from agent_builder.storage.database import Database
from agent_builder.storage.migrations import AGENT_MIGRATIONS
from tests.support.stored import conversation, open_state

MIB = 1024 * 1024


def notes(conn: sqlite3.Connection) -> None:
    conn.execute("CREATE TABLE notes (text TEXT NOT NULL)")


def add(text: str):
    return lambda conn: conn.execute("INSERT INTO notes VALUES (?)", (text,)).rowcount


def texts(conn: sqlite3.Connection) -> list[str]:
    return [text for (text,) in conn.execute("SELECT text FROM notes ORDER BY rowid")]


async def open_notes(path: Path, max_bytes: int = 16 * MIB) -> Database:
    return await Database.open(path, (notes,), max_bytes=max_bytes)


@pytest.fixture
async def database(tmp_path: Path):
    opened = await open_notes(tmp_path / "notes.sqlite")
    yield opened
    await opened.close()


async def test_a_transaction_is_kept_whole(database: Database) -> None:
    def two(conn: sqlite3.Connection) -> str:
        add("one")(conn)
        add("two")(conn)
        return "done"

    assert await database.run(two) == "done"
    assert await database.read(texts) == ["one", "two"]


async def test_a_transaction_that_raises_leaves_nothing(database: Database) -> None:
    def half(conn: sqlite3.Connection) -> None:
        add("half")(conn)
        raise Internal("on purpose")

    with pytest.raises(Internal, match="on purpose"):
        await database.run(half)
    await database.run(add("after"))
    assert await database.read(texts) == ["after"]


async def test_a_cancelled_waiter_does_not_cut_a_transaction(database: Database) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(conn: sqlite3.Connection) -> None:
        add("first half")(conn)
        entered.set()
        go_on.wait()
        add("second half")(conn)

    waiter = asyncio.ensure_future(database.run(slow))
    await asyncio.to_thread(entered.wait)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    go_on.set()
    await database.run(lambda conn: None)
    assert await database.read(texts) == ["first half", "second half"]


async def test_a_transaction_whose_waiter_left_before_it_began_still_runs(database: Database) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(conn: sqlite3.Connection) -> None:
        entered.set()
        go_on.wait()

    first = asyncio.ensure_future(database.run(slow))
    await asyncio.to_thread(entered.wait)
    second = asyncio.ensure_future(database.run(add("queued")))
    await asyncio.sleep(0)
    second.cancel()
    go_on.set()
    await first
    await database.run(lambda conn: None)
    assert await database.read(texts) == ["queued"]


async def test_a_read_does_not_wait_for_the_writer_and_sees_the_last_commit(database: Database) -> None:
    await database.run(add("committed"))
    entered, go_on = threading.Event(), threading.Event()

    def slow(conn: sqlite3.Connection) -> None:
        add("not yet")(conn)
        entered.set()
        go_on.wait()

    writing = asyncio.ensure_future(database.run(slow))
    await asyncio.to_thread(entered.wait)
    assert await database.read(texts) == ["committed"]
    go_on.set()
    await writing
    assert await database.read(texts) == ["committed", "not yet"]


async def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await database.read(add("smuggled"))
    assert await database.read(texts) == []


async def test_the_bound_keeps_a_reserve_that_terminals_may_use(tmp_path: Path) -> None:
    database = await open_notes(tmp_path / "notes.sqlite", max_bytes=2 * DATABASE_RESERVE_BYTES)
    half = "x" * (DATABASE_RESERVE_BYTES // 2)
    await database.run(add(half))
    with pytest.raises(StorageFull):
        await database.run(add(half))
    await database.run(add(half), terminal=True)
    with pytest.raises(StorageFull):
        await database.run(add("y" * 8192))
    with pytest.raises(StorageFull):
        await database.run(add("y" * DATABASE_RESERVE_BYTES), terminal=True)
    await database.run(lambda conn: conn.execute("DELETE FROM notes").rowcount)
    await database.run(add(half))
    assert [len(text) for text in await database.read(texts)] == [len(half)]
    await database.close()


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system of its own: needs root, or sudo without a password."""
    place.mkdir()
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    options = f"size={size},mode=0700,uid={os.geteuid()}"
    subprocess.run([*root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run([*root, "umount", "--lazy", str(place)], check=True)


async def test_a_full_disk_is_an_error_without_effect_and_ends_when_space_is_back(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        database = await open_notes(disk / "notes.sqlite", max_bytes=64 * MIB)
        await database.run(add("before"))
        ballast = disk / "ballast"
        with pytest.raises(OSError, match="No space left"), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        with pytest.raises(StorageFull):
            await database.run(add("z" * 65536))
        with pytest.raises(StorageFull):
            await database.run(add("z" * 65536), terminal=True)
        assert await database.read(texts) == ["before"]
        ballast.unlink()
        await database.run(add("after"))
        assert await database.read(texts) == ["before", "after"]
        await database.close()


async def test_opening_on_a_full_disk_is_storage_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        with pytest.raises(OSError, match="No space left"), open(disk / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        with pytest.raises(StorageFull):
            await open_state(disk)


async def test_closing_waits_for_what_was_asked_for_and_empties_the_wal(tmp_path: Path) -> None:
    database = await open_notes(tmp_path / "notes.sqlite")
    writing = asyncio.ensure_future(database.run(add("last")))
    await asyncio.sleep(0)
    await asyncio.gather(database.close(), database.close())
    assert await writing == 1
    assert [path.name for path in tmp_path.iterdir()] == ["notes.sqlite"]
    await database.close()
    for use in (database.run, database.read):
        with pytest.raises(AgentDraining):
            await use(texts)


async def test_closing_empties_the_wal_also_while_another_program_looks(tmp_path: Path) -> None:
    database = await open_notes(tmp_path / "notes.sqlite")
    await database.run(add("x"))
    other = sqlite3.connect(tmp_path / "notes.sqlite")
    assert texts(other) == ["x"]
    await database.close()
    assert (tmp_path / "notes.sqlite-wal").stat().st_size == 0
    other.close()


async def test_no_thread_is_left_after_closing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    database = await open_notes(tmp_path / "notes.sqlite")
    await database.run(add("x"))
    await database.read(texts)
    threads = set(threading.enumerate()) - before
    await database.close()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
    assert len(threads) == 2
    assert not any(thread.is_alive() for thread in threads)


async def test_checkpoints_run_beside_the_writer(tmp_path: Path) -> None:
    database = await open_notes(tmp_path / "notes.sqlite")
    main_file = tmp_path / "notes.sqlite"
    before = main_file.stat().st_size
    for number in range(CHECKPOINT_COMMITS):
        await database.run(add(f"{number} " + "x" * 4096))
    checkpoint = [thread for thread in threading.enumerate() if thread.name.startswith("sqlite-checkpoint")]
    await database.close()
    assert checkpoint
    assert main_file.stat().st_size > before + CHECKPOINT_COMMITS * 4096


async def test_files_are_private_under_an_open_umask(tmp_path: Path) -> None:
    earlier = os.umask(0)
    try:
        database = await open_notes(tmp_path / "notes.sqlite")
        await database.run(add("x"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        await database.close()
    finally:
        os.umask(earlier)
    assert modes == dict.fromkeys(("notes.sqlite", "notes.sqlite-wal", "notes.sqlite-shm"), 0o600)


async def test_a_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    path.touch()
    path.chmod(0o664)
    database = await open_notes(path)
    await database.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["with blank", "中文", "a?mode=memory", "a#b", "100%41", "it's"])
async def test_any_path_names_just_that_file(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    database = await open_notes(directory / "notes.sqlite")
    await database.run(add("here"))
    assert await database.read(texts) == ["here"]
    await database.close()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert [path.name for path in directory.iterdir()] == ["notes.sqlite"]


async def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "notes.sqlite").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        await open_notes(tmp_path / "notes.sqlite")


async def test_a_file_held_by_another_program_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_builder.storage.opening.SQLITE_BUSY_MS", 1)
    database = await open_notes(tmp_path / "notes.sqlite")
    other = sqlite3.connect(tmp_path / "notes.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Internal, match="Another program"):
        await database.run(add("x"))
    other.execute("ROLLBACK")
    other.close()
    await database.run(add("y"))
    assert await database.read(texts) == ["y"]
    await database.close()


async def test_damage_that_shows_while_reading_is_agent_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_builder.storage.opening.QUICK_CHECK_BYTES", 0)
    path = tmp_path / "notes.sqlite"
    database = await open_notes(path)
    for number in range(64):
        await database.run(add(f"{number} " + "x" * 4096))
    await database.close()
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (path.stat().st_size - 8192))
    database = await open_notes(path)
    with pytest.raises(AgentDamaged):
        await database.read(texts)
    await database.close()


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.support.stored import conversation, open_state

async def main():
    database = await open_state(Path(sys.argv[1]))
    while True:
        await database.run(lambda conn: conversation(conn, "kept"))
        print("committed", flush=True)

asyncio.run(main())
"""


async def test_what_was_committed_survives_kill_9(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
    )
    assert child.stdout is not None
    seen = [child.stdout.readline() for _ in range(20)]
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read()
    child.wait()
    child.stdout.close()
    acknowledged = len(seen) + rest.count(b"committed")
    database = await open_state(tmp_path)
    stored = len(await database.read(list_conversations))
    await database.close()
    assert acknowledged <= stored <= acknowledged + 1
    assert child.returncode == -signal.SIGKILL


async def test_two_databases_never_wait_for_each_other(tmp_path: Path) -> None:
    one, two = await open_notes(tmp_path / "one.sqlite"), await open_notes(tmp_path / "two.sqlite")
    entered, go_on = threading.Event(), threading.Event()

    def slow(conn: sqlite3.Connection) -> None:
        entered.set()
        go_on.wait()

    blocked = asyncio.ensure_future(one.run(slow))
    await asyncio.to_thread(entered.wait)
    await two.run(add("free"))
    assert await two.read(texts) == ["free"]
    go_on.set()
    await blocked
    await one.close()
    await two.close()


async def test_an_agents_database_opens_again_as_it_was(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "state.sqlite", AGENT_MIGRATIONS, max_bytes=16 * MIB)
    made = await database.run(lambda conn: conversation(conn, "kept"))
    await database.close()
    database = await open_state(tmp_path)
    assert [row.conversation_id for row in await database.read(list_conversations)] == [made]
    await database.close()
