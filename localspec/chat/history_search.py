"""Finding chats: every word of the query occurs, as it is written, anywhere in a title or in one message.

Words are pieces of text, found inside longer ones too (code and scripts without spaces need that); "quotes" keep
several together. Upper and lower case are one. SQLite's FTS5 with three-letter pieces makes it fast; where it is not
built in, or a word is shorter than that, the texts are read through, with the same result.

The index is brought up to date when somebody searches: saving a streaming answer costs nothing for it, and a program
whose SQLite lacks FTS5 leaves no gap behind.
"""

import re
import sqlite3
from dataclasses import dataclass

_TABLES = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS title_index USING fts5 (text, tokenize = 'trigram')",
    "CREATE VIRTUAL TABLE IF NOT EXISTS message_index USING fts5 (text, tokenize = 'trigram')",
)
_PIECE = 3
"""Characters in a piece of the index: shorter words are not in it."""

_BEFORE, _AFTER = 30, 120
"""Characters of a message around what was found."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chat that was found. `message` is the latest one with the words, None when it was the title; `spans` are the
    words' places in `snippet`, which is on one line; `count` messages of the chat were found."""

    chat: int
    message: int | None
    snippet: str
    spans: tuple[tuple[int, int], ...]
    count: int


def prepare(db: sqlite3.Connection) -> None:
    """Gives the connection what `search` needs."""
    # LIKE knows upper and lower case in ASCII only.
    db.create_function("contains", 2, lambda text, word: word.lower() in text.lower(), deterministic=True)


def words_of(query: str) -> list[str]:
    """The words to find; what stands in quotes is one."""
    return [quoted or bare for quoted, bare in re.findall(r'"([^"]+)"|([^\s"]+)', query)]


def refresh(db: sqlite3.Connection) -> None:
    """Brings the index up to date, inside the caller's transaction; without FTS5 there is none."""
    if not has_index(db):
        return
    for statement in _TABLES:
        db.execute(statement)
    for table, index, column in (("chats", "title_index", "title"), ("messages", "message_index", "text")):
        db.execute(f"DELETE FROM {index} WHERE rowid IN (SELECT id FROM {table} WHERE indexed = 0)")
        db.execute(f"INSERT INTO {index} (rowid, text) SELECT id, {column} FROM {table} WHERE indexed = 0")
        db.execute(f"UPDATE {table} SET indexed = 1 WHERE indexed = 0")


def has_index(db: sqlite3.Connection) -> bool:
    """Whether this SQLite has FTS5 with three-letter pieces (from 3.34 on)."""
    options = {str(name) for (name,) in db.execute("PRAGMA compile_options")}
    return "ENABLE_FTS5" in options and sqlite3.sqlite_version_info >= (3, 34)


def search(db: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """The chats that have the words: by title first, then by message, each the latest first."""
    words = words_of(query)
    if not words:
        return []
    hits: dict[int, Hit] = {}
    titles = _find(db, words, "chats", "title", "title_index", "t.id, t.title", "t.updated DESC, t.id DESC", limit)
    for chat, title in titles:
        hits[chat] = Hit(chat, None, *_around(title, words), 0)
    # The window's count sees every row of the chat that was found, also those the outer filter drops.
    columns = (
        "t.chat, t.id, t.text, count(*) OVER (PARTITION BY t.chat), "
        "row_number() OVER (PARTITION BY t.chat ORDER BY t.id DESC), "
        "(SELECT updated FROM chats WHERE id = t.chat)"
    )
    for chat, message, text, count, place, _updated in _find(
        db, words, "messages", "text", "message_index", columns, "6 DESC, t.chat DESC, 5", -1
    ):
        if place == 1 and chat not in hits and len(hits) < limit:
            hits[chat] = Hit(chat, message, *_around(text, words), count)
    return list(hits.values())


def _find(
    db: sqlite3.Connection, words: list[str], table: str, column: str, index: str, columns: str, order: str, limit: int
) -> sqlite3.Cursor:
    conditions, values = [], []
    long = [word for word in words if len(word) >= _PIECE] if has_index(db) else []
    if long:
        conditions.append(f"t.id IN (SELECT rowid FROM {index} WHERE {index} MATCH ?)")
        values.append(" AND ".join('"' + word.replace('"', '""') + '"' for word in long))
    for word in words:
        if word not in long:
            conditions.append(f"contains(t.{column}, ?)")
            values.append(word)
    sql = f"SELECT {columns} FROM {table} t WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?"
    return db.execute(sql, (*values, limit))


def _around(text: str, words: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """One line around the longest word, which says most, and where the words are in it."""
    words = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE)
    first = re.search(re.escape(words[0]), text, re.IGNORECASE)
    at = first.start() if first else 0
    start, end = max(0, at - _BEFORE), min(len(text), at + _AFTER)
    if start:
        # From the beginning of a word, when there is one.
        start = next((place + 1 for place in range(start, at) if text[place].isspace()), start)
    line = re.sub(r"\s", " ", text[start:end])
    snippet = ("…" if start else "") + line + ("…" if end < len(text) else "")
    return snippet, tuple(match.span() for match in pattern.finditer(snippet))
