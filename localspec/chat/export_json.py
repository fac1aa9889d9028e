"""A chat as JSON with everything in it, and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from localspec.chat.errors import HistoryError
from localspec.chat.history import History
from localspec.chat.provenance import cycle_json, part_of, source_of, token_json
from localspec.chat.turns import Turn
from localspec.engine.events import Cycle, Reason, Started, Stats

FORMAT, VERSION = "localspec chat", 1

Value = TypeVar("Value", Cycle, Started, Stats)


def to_json(history: History, chat_id: int) -> dict[str, Any]:
    """Everything about a chat. Messages are numbered from 1 in the order they were made; `parent` and `head` name
    such numbers."""
    chat = history.chat(chat_id)
    tree = history.tree(chat_id)
    numbers = {turn.id: place for place, (turn, _, _) in enumerate(tree, start=1)}
    messages = []
    for turn, parent, created in tree:
        message: dict[str, Any] = {
            "id": numbers[turn.id], "parent": numbers.get(parent), "role": turn.role, "created": created,
            "text": turn.text,
        }  # fmt: skip
        if turn.role == "assistant":
            message |= {
                "thoughts": turn.thoughts,
                "started": asdict(turn.started) if turn.started else None,
                "reason": turn.reason,
                "stats": asdict(turn.stats) if turn.stats else None,
                "tokens": [token_json(part) for part in turn.parts],
                "cycles": [cycle_json(cycle) for cycle in turn.cycles],
            }
        messages.append(message)
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": chat.title,
        "target": chat.target,
        "draft": chat.draft,
        "system": chat.system,
        "settings": dict(chat.settings),
        "created": chat.created,
        "head": numbers.get(chat.head),
        "messages": messages,
    }


def from_json(history: History, text: str) -> int:
    """Adds the chat that `to_json` wrote, as a new one; returns its number.

    Raises `HistoryError` for anything else, and then nothing was added.
    """
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError("it is not a chat that localspec exported as JSON")
        if found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']}, this localspec knows {VERSION}: update it")
        messages = [_message(message, place) for place, message in enumerate(found["messages"], start=1)]
        title, system = _text(found["title"]), _text(found["system"])
        target, draft = (None if found[name] is None else _text(found[name]) for name in ("target", "draft"))
        settings, head, created = dict(found["settings"]), found["head"], float(found["created"])
        if head is not None and not (_fits(head, int) and 1 <= head <= len(messages)):
            raise ValueError(f"there is no message {head!r} to show")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise HistoryError(f"the file cannot be taken in: {' '.join(reason.split())}") from None
    chat = history.create(title=title, target=target, draft=draft, system=system, settings=settings, created=created)
    try:
        ids: list[int] = []
        for turn, parent, made in messages:
            ids.append(history.add(chat.id, turn, None if parent is None else ids[parent - 1], made))
        if head is not None:
            history.show(ids[head - 1])
    except HistoryError:
        history.delete(chat.id)
        raise
    return chat.id


def _message(message: dict[str, Any], place: int) -> tuple[Turn, int | None, float]:
    role, parent = message["role"], message["parent"]
    if role not in ("user", "assistant"):
        raise ValueError(f"message {place} has the role {role!r}")
    if parent is not None and not (_fits(parent, int) and 1 <= parent < place):
        raise ValueError(f"message {place} comes after message {parent!r}, which is not before it")
    turn = Turn(role, _text(message["text"]))
    if role == "assistant":
        turn.thoughts = _text(message["thoughts"])
        turn.parts = [part_of(token) for token in message["tokens"]]
        turn.cycles = [_cycle(cycle) for cycle in message["cycles"]]
        turn.started = None if message["started"] is None else _checked(Started, message["started"])
        turn.stats = None if message["stats"] is None else _checked(Stats, message["stats"])
        turn.reason = message["reason"]
        if not _fits(turn.reason, Reason | None):
            raise ValueError(f"message {place} ended for the reason {turn.reason!r}")
        if turn.parts and (
            "".join(part.text for part in turn.parts) != turn.text
            or "".join(part.thought for part in turn.parts) != turn.thoughts
        ):
            raise ValueError(f"the tokens of message {place} do not make its text")
    return turn, parent, float(message["created"])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} should be a text")
    return value


def _cycle(found: Mapping[str, Any]) -> Cycle:
    return _checked(Cycle, {**found, "source": source_of(found.get("source"))})


def _checked(kind: type[Value], found: Mapping[str, Any]) -> Value:
    """The value of that kind; raises ValueError when a field is missing, unknown, or of another type."""
    hints = get_type_hints(kind)
    for name, value in found.items():
        if name not in hints or not _fits(value, hints[name]):
            raise ValueError(f"{kind.__name__.lower()}: {name} cannot be {value!r}")
    return kind(**found)


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if alternatives := get_args(hint):
        return any(_fits(value, alternative) for alternative in alternatives)
    if isinstance(value, bool) or hint in (bool, NoneType):
        return isinstance(value, hint) and hint in (bool, NoneType)
    return isinstance(value, int | float) if hint is float else isinstance(value, hint)
