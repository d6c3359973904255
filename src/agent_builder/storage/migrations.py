"""The tables of both kinds of database, one function per step. A step is never changed once it has shipped: add another."""

import sqlite3
from collections.abc import Callable, Sequence

Migration = Callable[[sqlite3.Connection], None]


def agent_1(conn: sqlite3.Connection) -> None:
    """Conversations and Turns, the event journal, context boundaries, calibration and summaries.

    A Turn's body exists once. `conversation_turns` gives it a place in a Conversation: a branch shares the Turns of its
    source, and a Turn goes with the last Conversation that shows it. `owner` is the Conversation that ran it.
    """
    _conversations(conn)
    _turns(conn)
    _journal(conn)
    _context(conn)


def _conversations(conn: sqlite3.Connection) -> None:
    conn.execute("""
        CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            conversation_id TEXT NOT NULL UNIQUE,
            title TEXT,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            revision INTEGER NOT NULL
        ) STRICT""")


def _turns(conn: sqlite3.Connection) -> None:
    conn.execute("""
        CREATE TABLE turns (
            key INTEGER PRIMARY KEY,
            turn_id TEXT NOT NULL UNIQUE,
            run_id TEXT NOT NULL UNIQUE,
            operation_id TEXT NOT NULL,
            owner INTEGER REFERENCES conversations (key) ON DELETE SET NULL,
            client_request_id TEXT,
            state TEXT NOT NULL CHECK (state IN ('preparing', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
            model_id TEXT,
            compact INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            finished_at INTEGER,
            attachments TEXT NOT NULL,
            reason TEXT,
            error TEXT,
            usage TEXT,
            user_text TEXT NOT NULL,
            assistant_text TEXT
        ) STRICT""")
    conn.execute("CREATE INDEX turn_owner ON turns (owner)")
    conn.execute("CREATE UNIQUE INDEX one_active_turn ON turns (owner) WHERE state IN ('preparing', 'running')")
    conn.execute("CREATE UNIQUE INDEX one_request ON turns (owner, client_request_id) WHERE client_request_id IS NOT NULL")
    conn.execute("""
        CREATE TABLE conversation_turns (
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            turn INTEGER NOT NULL REFERENCES turns (key) ON DELETE CASCADE,
            PRIMARY KEY (conversation, position)
        ) STRICT, WITHOUT ROWID""")
    conn.execute("CREATE INDEX shown_turn ON conversation_turns (turn)")
    conn.execute("""
        CREATE TABLE bundles (
            turn INTEGER PRIMARY KEY REFERENCES turns (key) ON DELETE CASCADE,
            bundle TEXT NOT NULL
        ) STRICT""")


def _journal(conn: sqlite3.Connection) -> None:
    conn.execute("CREATE TABLE journal_runs (key INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE) STRICT")
    conn.execute("""
        CREATE TABLE events (
            run INTEGER NOT NULL REFERENCES journal_runs (key) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            type TEXT NOT NULL,
            event TEXT NOT NULL,
            PRIMARY KEY (run, seq)
        ) STRICT, WITHOUT ROWID""")


def _context(conn: sqlite3.Connection) -> None:
    conn.execute("""
        CREATE TABLE boundaries (
            key INTEGER PRIMARY KEY,
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            turn_id TEXT NOT NULL,
            digest TEXT NOT NULL,
            previous_digest TEXT,
            fields TEXT NOT NULL
        ) STRICT""")
    conn.execute("CREATE INDEX boundary_chain ON boundaries (conversation, key)")
    conn.execute("""
        CREATE TABLE summaries (
            key INTEGER PRIMARY KEY,
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            source_digest TEXT NOT NULL,
            parent_digest TEXT,
            covered_turns INTEGER NOT NULL,
            text TEXT NOT NULL,
            kind TEXT NOT NULL,
            model_id TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            UNIQUE (conversation, source_digest)
        ) STRICT""")
    conn.execute("""
        CREATE TABLE observations (
            key INTEGER PRIMARY KEY,
            scope TEXT NOT NULL,
            run_id TEXT NOT NULL,
            request_digest TEXT NOT NULL,
            estimated INTEGER NOT NULL,
            observed INTEGER NOT NULL,
            evaluated INTEGER,
            eval_ms INTEGER,
            exact INTEGER NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT""")
    conn.execute("CREATE INDEX observation_scope ON observations (scope, key)")
    conn.execute("CREATE TABLE rates (scope TEXT PRIMARY KEY, rate REAL NOT NULL, created_at INTEGER NOT NULL) STRICT")


def agent_2(conn: sqlite3.Connection) -> None:
    """What a chat template adds, and of an observation all that it can be learnt from. Older observations lack that and go."""
    conn.execute("DROP TABLE observations")
    conn.execute("""
        CREATE TABLE observations (
            key INTEGER PRIMARY KEY,
            scope TEXT NOT NULL,
            run_id TEXT NOT NULL,
            request_digest TEXT NOT NULL,
            text INTEGER NOT NULL,
            spare INTEGER NOT NULL,
            messages INTEGER NOT NULL,
            calls INTEGER NOT NULL,
            results INTEGER NOT NULL,
            observed INTEGER NOT NULL,
            evaluated INTEGER,
            eval_ms INTEGER,
            exact INTEGER NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT""")
    conn.execute("CREATE INDEX observation_scope ON observations (scope, key)")
    conn.execute("""
        CREATE TABLE overheads (
            scope TEXT PRIMARY KEY,
            request INTEGER NOT NULL,
            message INTEGER NOT NULL,
            call INTEGER NOT NULL,
            result INTEGER NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT""")


def agent_3(conn: sqlite3.Connection) -> None:
    """Tasks, work beside a Run, and what is said about them. A Task goes with the Conversation of its Run."""
    conn.execute("""
        CREATE TABLE tasks (
            key INTEGER PRIMARY KEY,
            task_id TEXT NOT NULL UNIQUE,
            run_id TEXT NOT NULL,
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            kind TEXT NOT NULL CHECK (kind IN ('runtime-compile', 'delegate')),
            state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
            created_at INTEGER NOT NULL,
            started_at INTEGER,
            finished_at INTEGER,
            code TEXT,
            result TEXT
        ) STRICT""")
    conn.execute("CREATE INDEX task_conversation ON tasks (conversation)")
    conn.execute("""
        CREATE TABLE task_notifications (
            task INTEGER NOT NULL REFERENCES tasks (key) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            kind TEXT NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (task, position)
        ) STRICT, WITHOUT ROWID""")


def agent_4(conn: sqlite3.Connection) -> None:
    """Installed Skills; their files lie in the Agent's data under the digest. `scripts` is a JSON list of names."""
    conn.execute("""
        CREATE TABLE skills (
            key INTEGER PRIMARY KEY,
            skill_id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            version TEXT NOT NULL,
            description TEXT NOT NULL,
            digest TEXT NOT NULL UNIQUE,
            bytes INTEGER NOT NULL,
            entries INTEGER NOT NULL,
            scripts TEXT NOT NULL,
            active INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            UNIQUE (name, version)
        ) STRICT""")
    conn.execute("CREATE UNIQUE INDEX one_active_version ON skills (name) WHERE active")


def agent_5(conn: sqlite3.Connection) -> None:
    """Delegations: whom a Run asked, and what was said. On the other side, which Conversation was made for one.

    `state`, `code` and `finished_at` stand for the Task's once that has gone; a delegation goes with the Conversation of its Run.
    """
    conn.execute("""
        CREATE TABLE delegations (
            key INTEGER PRIMARY KEY,
            task_id TEXT NOT NULL UNIQUE,
            run_id TEXT NOT NULL UNIQUE,
            conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
            child_agent_id TEXT NOT NULL,
            child_agent_name TEXT NOT NULL,
            child_conversation_id TEXT NOT NULL,
            child_run_id TEXT,
            created_at INTEGER NOT NULL,
            state TEXT,
            code TEXT,
            finished_at INTEGER
        ) STRICT""")
    conn.execute("CREATE INDEX delegation_conversation ON delegations (conversation)")
    conn.execute("""
        CREATE TABLE mailbox (
            delegation INTEGER NOT NULL REFERENCES delegations (key) ON DELETE CASCADE,
            direction TEXT NOT NULL CHECK (direction IN ('to_child', 'to_parent')),
            text TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            PRIMARY KEY (delegation, direction)
        ) STRICT, WITHOUT ROWID""")
    conn.execute("""
        CREATE TABLE child_conversations (
            conversation INTEGER PRIMARY KEY REFERENCES conversations (key) ON DELETE CASCADE,
            task_id TEXT NOT NULL,
            parent_agent_id TEXT NOT NULL,
            parent_conversation_id TEXT NOT NULL
        ) STRICT""")


def registry_1(conn: sqlite3.Connection) -> None:
    """Which Agents there are, and how far a change of one of them has come."""
    conn.execute("""
        CREATE TABLE agents (
            key INTEGER PRIMARY KEY,
            agent_id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            system INTEGER NOT NULL,
            generation INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('creating', 'active', 'upgrading', 'deleting')),
            target_generation INTEGER,
            created_at INTEGER NOT NULL
        ) STRICT""")


AGENT_MIGRATIONS: Sequence[Migration] = (agent_1, agent_2, agent_3, agent_4, agent_5)
REGISTRY_MIGRATIONS: Sequence[Migration] = (registry_1,)
