"""The history's tables, version by version. A database of an older version is brought up step by step.

A version that people have is never edited: a change is a new entry at the end of `MIGRATIONS`.
"""

import sqlite3

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    # 1: chats, their messages as a tree (editing or regenerating adds a sibling), and where each token came from.
    (
        """CREATE TABLE chats (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            title TEXT NOT NULL DEFAULT '',
            target TEXT,
            draft TEXT,
            system TEXT NOT NULL DEFAULT '',
            settings TEXT NOT NULL DEFAULT '{}',
            head INTEGER REFERENCES messages (id) ON DELETE SET NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL
        )""",
        """CREATE TABLE messages (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
            parent INTEGER REFERENCES messages (id) DEFERRABLE INITIALLY DEFERRED,
            role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
            text TEXT NOT NULL DEFAULT '',
            thoughts TEXT NOT NULL DEFAULT '',
            created REAL NOT NULL,
            started TEXT,
            reason TEXT,
            stats TEXT
        )""",
        """CREATE TABLE provenance (
            message INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            data BLOB NOT NULL
        )""",
        "CREATE INDEX messages_of_chat ON messages (chat)",
        "CREATE INDEX messages_of_parent ON messages (parent)",
        "CREATE INDEX chats_by_update ON chats (updated)",
    ),
    # 2: what the search index has not seen yet. The index itself is made by whoever can (see `history_search`).
    (
        "ALTER TABLE chats ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE messages ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX chats_to_index ON chats (id) WHERE indexed = 0",
        "CREATE INDEX messages_to_index ON messages (id) WHERE indexed = 0",
    ),
)

VERSION = len(MIGRATIONS)


class TooNew(Exception):
    """The database was written by a newer localspec."""


def migrate(connection: sqlite3.Connection) -> None:
    """Brings an open database to `VERSION`, in one transaction that other processes wait for.

    The connection must be in autocommit mode. Raises `TooNew` and `sqlite3.Error`; the database is then as it was.
    """
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        found = _version(connection)
        if found > VERSION:
            raise TooNew(f"its version is {found}, this localspec knows {VERSION}")
        for statements in MIGRATIONS[found:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
