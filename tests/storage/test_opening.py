import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_builder.protocol.errors import AgentDamaged
from agent_builder.protocol.limits import QUICK_CHECK_BYTES
from agent_builder.protocol.request import Units
from agent_builder.storage.calibration import Observation, add_observation, get_overhead, get_rate, observations
from agent_builder.storage.migrations import AGENT_MIGRATIONS, REGISTRY_MIGRATIONS, agent_1
from agent_builder.storage.opening import open_writer
from tests.support.stored import NOW


def first(conn: sqlite3.Connection) -> None:
    conn.execute("CREATE TABLE notes (text TEXT)")
    conn.execute("INSERT INTO notes VALUES ('old')")


def second(conn: sqlite3.Connection) -> None:
    conn.execute("ALTER TABLE notes ADD COLUMN colour TEXT")
    conn.execute("UPDATE notes SET colour = 'blue'")


def broken(conn: sqlite3.Connection) -> None:
    conn.execute("DELETE FROM notes")
    conn.execute("SELECT nothing FROM nowhere")


def opened(path: Path, *migrations) -> dict[str, object]:
    """What is found in a file after opening it with these migrations."""
    with closing(open_writer(path, migrations)) as conn:
        return contents(conn)


def contents(conn: sqlite3.Connection) -> dict[str, object]:
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    return {"version": version, "notes": conn.execute("SELECT * FROM notes").fetchall()}


def test_migrations_are_numbered_and_each_runs_once(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    assert opened(path, first) == {"version": 1, "notes": [("old",)]}
    assert opened(path, first, second) == {"version": 2, "notes": [("old", "blue")]}
    assert opened(path, first, second) == {"version": 2, "notes": [("old", "blue")]}


def test_a_copy_is_made_before_a_migration_of_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    opened(path, first)
    assert [one.name for one in tmp_path.iterdir()] == ["a.sqlite"]
    opened(path, first, second)
    copy = tmp_path / "a.sqlite.before-2"
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as conn:
        assert contents(conn) == {"version": 1, "notes": [("old",)]}


def test_only_the_newest_copy_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    opened(path, first)
    opened(path, first, second)
    opened(path, first, second, lambda conn: None)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.sqlite", "a.sqlite.before-3"]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    opened(path, first)
    with pytest.raises(sqlite3.OperationalError):
        opened(path, first, second, broken)
    assert opened(path, first) == {"version": 1, "notes": [("old",)]}


def test_a_copy_left_half_made_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    opened(path, first)
    (tmp_path / "a.sqlite.copying").write_bytes(b"half of a copy")
    opened(path, first, second)
    assert not (tmp_path / "a.sqlite.copying").exists()
    with closing(sqlite3.connect(tmp_path / "a.sqlite.before-2")) as conn:
        assert contents(conn)["version"] == 1


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    opened(path, first, second)
    before = path.read_bytes()
    with pytest.raises(AgentDamaged, match="newer"):
        opened(path, first)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all", b"SQLite format 3\x00" + b"\x07" * 4096])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    with pytest.raises(AgentDamaged):
        opened(path, first)
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_page_overwritten_in_the_middle_is_found_at_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(open_writer(path, (first,))) as conn:
        conn.executemany("INSERT INTO notes VALUES (?)", [("x" * 3000,)] * 40)
    damaged = bytearray(path.read_bytes())
    damaged[8192:12288] = b"\xff" * 4096
    path.write_bytes(damaged)
    with pytest.raises(AgentDamaged):
        opened(path, first)
    assert path.read_bytes() == bytes(damaged)
    assert path.stat().st_size < QUICK_CHECK_BYTES


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(open_writer(path, (first,))) as conn:
        conn.executemany("INSERT INTO notes VALUES (?)", [("x" * 3000,)] * 40)
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(AgentDamaged):
        opened(path, first)


def test_what_every_connection_relies_on_is_set(tmp_path: Path) -> None:
    with closing(open_writer(tmp_path / "a.sqlite", AGENT_MIGRATIONS)) as conn:
        found = {name: conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "foreign_keys", "journal_size_limit")}
    assert found == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "journal_size_limit": 16 * 1024 * 1024}


@pytest.mark.parametrize("migrations", [AGENT_MIGRATIONS, REGISTRY_MIGRATIONS])
def test_the_shipped_migrations_make_a_sound_file(tmp_path: Path, migrations) -> None:
    with closing(open_writer(tmp_path / "a.sqlite", migrations)) as conn:
        assert conn.execute("PRAGMA user_version").fetchone()[0] == len(migrations)
        assert conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []


def test_observations_without_the_size_of_their_texts_go_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(open_writer(path, (agent_1,))) as conn:
        conn.execute("INSERT INTO observations VALUES (1, 'scope', 'run', 'digest', 900, 300, NULL, NULL, 1, 5)")
        conn.execute("INSERT INTO conversations VALUES (1, 'c', 'Birds', 1, 1, 1)")
        conn.execute("INSERT INTO rates VALUES ('m gguf-bpe-v1', 50.0, 1)")
        conn.commit()
    with closing(open_writer(path, AGENT_MIGRATIONS)) as conn:
        assert observations(conn, "scope", 9) == []
        assert get_overhead(conn, "scope") is None
        assert conn.execute("SELECT title FROM conversations").fetchall() == [("Birds",)]
        assert get_rate(conn, "m gguf-bpe-v1") == 50.0
        add_observation(conn, seen := Observation("scope", "run", "digest", 900, 10, Units(4, 1, 1), 960, None, None, True, NOW))
        assert observations(conn, "scope", 9) == [seen]
