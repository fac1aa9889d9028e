"""What the history's rows mean: chats, branches, and messages with their provenance."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from localspec.chat.provenance import pack, unpack
from localspec.chat.turns import Turn
from localspec.chat.visible import one_line
from localspec.engine.events import Started, Stats

TITLE_LENGTH = 60

CHAT = (
    "SELECT id, title, target, draft, system, settings, head, created, updated, "
    "(SELECT count(*) FROM messages WHERE chat = chats.id) FROM chats"
)
"""The columns of `chat_of`."""

MESSAGE = "m.id, m.role, m.text, m.thoughts, m.started, m.reason, m.stats, p.data"
"""The columns of `turn_of`, of `messages m` and `provenance p`."""

Kept = TypeVar("Kept", Started, Stats)


@dataclass(frozen=True, slots=True)
class Chat:
    """What the list of chats shows. `target` and `draft` are what a person would write to get them again (a pair's
    name, a file, a hub name); `settings` is the app's own; times are Unix seconds; `messages` counts all branches."""

    id: int
    title: str
    target: str | None
    draft: str | None
    system: str
    settings: Mapping[str, Any]
    head: int | None
    created: float
    updated: float
    messages: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One way through a chat: its last message, how many lead there, and the last question as a line."""

    leaf: int
    messages: int
    question: str
    created: float
    shown: bool


def title_of(text: str) -> str:
    """A chat's title out of its first question: the first line with something on it, shortened."""
    line = storable(one_line(next((line for line in text.splitlines() if line.strip()), "")))
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def chat_of(row: tuple[Any, ...]) -> Chat:
    number, title, target, draft, system, settings, *rest = row
    return Chat(number, title, target, draft, system, _object(settings) or {}, *rest)


def storable(text: str) -> str:
    """Text that SQLite takes: half a character (out of a file's name, say) becomes a question mark, one for one."""
    return text.encode("utf-8", "replace").decode("utf-8")


def store(db: sqlite3.Connection, number: int, turn: Turn) -> None:
    db.execute(
        "UPDATE messages SET text = ?, thoughts = ?, started = ?, reason = ?, stats = ?, indexed = 0 WHERE id = ?",
        (storable(turn.text), storable(turn.thoughts), _json(turn.started), turn.reason, _json(turn.stats), number),
    )
    if turn.parts:
        db.execute(
            "INSERT OR REPLACE INTO provenance (message, data) VALUES (?, ?)", (number, pack(turn.parts, turn.cycles))
        )


def turn_of(row: tuple[Any, ...]) -> Turn:
    number, role, text, thoughts, started, reason, stats, data = row
    turn = Turn(role, text, thoughts, id=number, reason=reason, broken=role == "assistant" and reason is None)
    turn.started, turn.stats = _value(Started, started), _value(Stats, stats)
    if data is not None:
        with suppress(ValueError):
            turn.parts, turn.cycles = unpack(data, text, thoughts)
    return turn


def _json(value: Started | Stats | None) -> str | None:
    return None if value is None else json.dumps(asdict(value))


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _value(kind: type[Kept], text: str | None) -> Kept | None:
    """The value that was kept; None when this version cannot make one of it."""
    found = _object(text)
    if found is None:
        return None
    names = {field.name for field in fields(kind)}
    try:
        return kind(**{name: value for name, value in found.items() if name in names})
    except TypeError:
        return None
