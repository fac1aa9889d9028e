"""Every chat on this disk, with where each token of each answer came from.

A chat is a tree of messages: editing or regenerating adds a sibling, and nothing that was said is lost. `head` is the
message that the chat shows last; the messages above it are the branch that is shown.

Several processes may use the file at once (SQLite in WAL mode, every write a short transaction that waits its turn),
and one `History` may be used from any thread.
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from localspec import paths
from localspec.chat import history_search
from localspec.chat.errors import HistoryError
from localspec.chat.history_rows import CHAT, MESSAGE, Branch, Chat, chat_of, storable, store, title_of, turn_of
from localspec.chat.history_schema import TooNew, migrate
from localspec.chat.history_search import Hit
from localspec.chat.turns import Turn
from localspec.chat.visible import one_line

FILE_NAME = "history.db"
WAIT_S = 5.0
"""How long a write waits for another process: theirs take milliseconds, so longer means that one hangs."""

_BRANCH = f"""
    WITH RECURSIVE branch (id, depth) AS (
        SELECT ?, 0 UNION ALL
        SELECT messages.parent, depth + 1 FROM branch JOIN messages ON messages.id = branch.id
        WHERE messages.parent IS NOT NULL
    )
    SELECT {MESSAGE}
    FROM branch JOIN messages m ON m.id = branch.id LEFT JOIN provenance p ON p.message = m.id
    WHERE m.chat = ? ORDER BY depth DESC
"""


class History:
    """The store. `problem` is a line for the person when chats are not kept; everything works then, in memory.

    Methods raise `HistoryError`, in one line, when the file cannot be read or written or a chat is not there.
    """

    def __init__(self, connection: sqlite3.Connection, file: Path | None, problem: str | None = None) -> None:
        self._db = connection
        self._lock = threading.RLock()
        self.file = file
        self.problem = problem

    @classmethod
    def open(cls, file: Path | None = None) -> Self:
        """The history on this disk; never raises. One that cannot be used is left as it is, and `problem` says why."""
        file = file or paths.data_dir() / FILE_NAME
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # What people write to a model is theirs: nobody else may read it. SQLite's side files follow this one.
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
            return cls(_connect(str(file)), file)
        except TooNew as error:
            why = f"is of a newer localspec ({error}): update this one"
        except sqlite3.DatabaseError as error:
            why = _words(error)
        except OSError as error:
            why = f"cannot be opened ({error.strerror or error})"
        return cls.in_memory(one_line(f"chats are not kept this time: {file} {why}"))

    @classmethod
    def in_memory(cls, problem: str | None = None) -> Self:
        """A history that ends with the program."""
        return cls(_connect(":memory:"), None, problem)

    @property
    def kept(self) -> bool:
        """Whether chats outlive the program."""
        return self.file is not None

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # -- chats -------------------------------------------------------------------------------------------------------

    def create(
        self,
        *,
        title: str = "",
        target: str | None = None,
        draft: str | None = None,
        system: str = "",
        settings: Mapping[str, Any] | None = None,
        created: float | None = None,
    ) -> Chat:
        """A new, empty chat. Without a title the first question becomes it."""
        now = time.time() if created is None else created
        with self._writing() as db:
            cursor = db.execute(
                "INSERT INTO chats (title, target, draft, system, settings, created, updated) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    storable(one_line(title)),
                    target,
                    draft,
                    storable(system),
                    json.dumps(dict(settings or {})),
                    now,
                    now,
                ),
            )
        return self.chat(int(cursor.lastrowid or 0))

    def chats(self, limit: int | None = None) -> list[Chat]:
        """The chats, the one with the latest message first."""
        with self._reading() as db:
            rows = db.execute(f"{CHAT} ORDER BY updated DESC, id DESC LIMIT ?", (-1 if limit is None else limit,))
            return [chat_of(row) for row in rows]

    def chat(self, chat_id: int) -> Chat:
        with self._reading() as db:
            row = db.execute(f"{CHAT} WHERE id = ?", (chat_id,)).fetchone()
        if row is None:
            raise HistoryError(f"there is no chat {chat_id} in the history")
        return chat_of(row)

    def last(self) -> Chat | None:
        """The chat with the latest message."""
        return next(iter(self.chats(1)), None)

    def update(
        self,
        chat_id: int,
        *,
        title: str | None = None,
        target: str | None = None,
        draft: str | None = None,
        system: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Changes what is given; a new `target` comes with its `draft`. The order of the chats stays."""
        changes: dict[str, Any] = {}
        if title is not None:
            changes |= {"title": storable(one_line(title)), "indexed": 0}
        if target is not None:
            changes |= {"target": target, "draft": draft}
        if system is not None:
            changes["system"] = storable(system)
        if settings is not None:
            changes["settings"] = json.dumps(dict(settings))
        if not changes:
            return
        assignments = ", ".join(f"{name} = ?" for name in changes)
        with self._writing() as db:
            _one(db.execute(f"UPDATE chats SET {assignments} WHERE id = ?", (*changes.values(), chat_id)), chat_id)

    def delete(self, chat_id: int) -> None:
        """Removes a chat with all its branches."""
        with self._writing() as db:
            _one(db.execute("DELETE FROM chats WHERE id = ?", (chat_id,)), chat_id)

    def search(self, query: str, limit: int = 100) -> list[Hit]:
        """The chats in whose title, or in one of whose messages, every word of the query occurs (see
        `history_search`); titles first, then the latest."""
        with self._writing() as db:
            history_search.refresh(db)
        with self._reading() as db:
            return history_search.search(db, query, limit)

    # -- messages ----------------------------------------------------------------------------------------------------

    def turns(self, chat_id: int, leaf: int | None = None) -> list[Turn]:
        """The branch of a chat that ends with `leaf` (None: the one that is shown), with every token's provenance.

        An answer whose making was cut off is `broken`. Provenance that cannot be read is left out; the text stays.
        """
        chat = self.chat(chat_id)
        end = chat.head if leaf is None else leaf
        if end is None:
            return []
        with self._reading() as db:
            return [turn_of(row) for row in db.execute(_BRANCH, (end, chat_id))]

    def add(self, chat_id: int, turn: Turn, parent: int | None, created: float | None = None) -> int:
        """Keeps a new message below `parent` (None: at the top) and shows its branch; `turn.id` is set and returned."""
        now = time.time() if created is None else created
        with self._writing() as db:
            cursor = db.execute(
                "INSERT INTO messages (chat, parent, role, created) VALUES (?, ?, ?, ?)",
                (chat_id, parent, turn.role, now),
            )
            number = int(cursor.lastrowid or 0)
            store(db, number, turn)
            db.execute("UPDATE chats SET head = ?, updated = ? WHERE id = ?", (number, now, chat_id))
            if turn.role == "user":
                db.execute(
                    "UPDATE chats SET title = ?, indexed = 0 WHERE id = ? AND title = ''",
                    (title_of(turn.text), chat_id),
                )
        turn.id = number
        return number

    def save(self, turn: Turn) -> None:
        """Keeps a message as it is now: the streaming answer's next stretch, or its end."""
        if turn.id is None:
            raise HistoryError("the message is not in the history: add it first")
        with self._writing() as db:
            store(db, turn.id, turn)
            db.execute(
                "UPDATE chats SET updated = ? WHERE id = (SELECT chat FROM messages WHERE id = ?)",
                (time.time(), turn.id),
            )

    def siblings(self, message: int) -> list[int]:
        """The message and its alternatives (regenerated answers, edited questions), oldest first."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT m.id FROM messages m, messages o WHERE o.id = ? AND m.chat = o.chat AND m.parent IS o.parent "
                "AND m.role = o.role ORDER BY m.id",
                (message,),
            )
            return [int(number) for (number,) in rows]

    def show(self, message: int) -> int:
        """Shows the branch through this message, to its latest end; returns that end."""
        with self._writing() as db:
            # Ids only grow, so the latest message below is an end.
            leaf = db.execute(
                "WITH RECURSIVE below (id) AS (SELECT id FROM messages WHERE id = ? UNION ALL SELECT m.id FROM below "
                "JOIN messages m ON m.parent = below.id) SELECT max(id) FROM below",
                (message,),
            ).fetchone()[0]
            if leaf is None:
                raise HistoryError(f"there is no message {message} in the history")
            db.execute("UPDATE chats SET head = ? WHERE id = (SELECT chat FROM messages WHERE id = ?)", (leaf, message))
        return int(leaf)

    def branches(self, chat_id: int) -> list[Branch]:
        """The ways through a chat, latest first."""
        head = self.chat(chat_id).head
        with self._reading() as db:
            found = db.execute(
                "SELECT id, parent, role, substr(text, 1, 200), created FROM messages WHERE chat = ? ORDER BY id",
                (chat_id,),
            ).fetchall()
        rows = {number: (parent, role, text, created) for number, parent, role, text, created in found}
        parents = {parent for parent, *_ in rows.values()}
        branches = []
        for leaf in sorted(rows.keys() - parents, reverse=True):
            question, count, at = "", 0, leaf
            while at is not None:
                parent, role, text, _ = rows[at]
                question = question or (title_of(text) if role == "user" else "")
                count, at = count + 1, parent
            branches.append(Branch(leaf, count, question, rows[leaf][3], leaf == head))
        return branches

    def tree(self, chat_id: int) -> list[tuple[Turn, int | None, float]]:
        """Every message of a chat with its parent and when it was made, oldest first: for an export."""
        with self._reading() as db:
            rows = db.execute(
                f"SELECT {MESSAGE}, m.parent, m.created FROM messages m "
                "LEFT JOIN provenance p ON p.message = m.id WHERE chat = ? ORDER BY m.id",
                (chat_id,),
            )
            return [(turn_of(row[:8]), row[8], row[9]) for row in rows]

    # -- the file ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise self._failure(error) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept, or nothing."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                raise

    def _failure(self, error: sqlite3.Error) -> HistoryError:
        if isinstance(error, sqlite3.IntegrityError):
            return HistoryError("the chat is not in the history any more: another localspec deleted it")
        return HistoryError(one_line(f"the chat history {self.file or ''} {_words(error)}"))


def _connect(file: str) -> sqlite3.Connection:
    db = sqlite3.connect(file, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        history_search.prepare(db)
        db.execute("PRAGMA foreign_keys = ON")
        _write_ahead(db)
        db.execute("PRAGMA synchronous = NORMAL")
        migrate(db)
        # A file that can be read but not written shows itself here, not at the first answer.
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except BaseException:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection) -> None:
    """Readers never wait for a writer; where the file system cannot do it SQLite stays with its own way."""
    ends = time.monotonic() + WAIT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite waits here for readers, but not for a writer.
            if "locked" not in str(error) or time.monotonic() > ends:
                raise
        time.sleep(0.01)


def _words(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text:
        return "is in use by another localspec that does not let go: close it and try again"
    if "full" in text:
        return "cannot grow, the disk is full: make room"
    if "readonly" in text or "unable to open" in text:
        return f"cannot be written ({text}): check its permissions"
    if "not a database" in text or "malformed" in text:
        return f"is damaged ({text}): move it away to begin a new one"
    return f"cannot be used ({text})"


def _one(cursor: sqlite3.Cursor, chat_id: int) -> None:
    if cursor.rowcount != 1:
        raise HistoryError(f"there is no chat {chat_id} in the history")
