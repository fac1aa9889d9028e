"""The keys: every action with an id, from the live classes, and what a person's config makes of them.

```toml
[keys]
"chat.stop" = "ctrl+x"        # or several: "ctrl+x,f9"
```
"""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys

MODIFIERS = ("ctrl", "shift", "alt", "super", "hyper", "meta")

PLACES = (
    ("Everywhere", "localspec.tui.app", "LocalspecApp"),
    ("Chat", "localspec.tui.screens.chat", "ChatScreen"),
    ("Changes", "localspec.tui.screens.changes", "ChangesScreen"),
    ("Models", "localspec.tui.screens.menu", "MenuScreen"),
    ("History", "localspec.tui.screens.history", "HistoryScreen"),
    ("Settings", "localspec.tui.screens.settings", "SettingsScreen"),
    ("Log", "localspec.tui.screens.log", "LogScreen"),
    ("Help", "localspec.tui.screens.help", "HelpScreen"),
)
"""Where actions live, in the order of the Help screen."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action: its id in the config, its keys as in the config, and what it does."""

    place: str
    id: str
    keys: str
    description: str


def actions() -> list[Action]:
    """Every action with an id, screen by screen; imports the screens."""
    found: dict[str, Action] = {}
    for place, module, name in PLACES:
        for owner in _classes(module, name):
            for binding in own(owner):
                if binding.id and binding.id not in found:
                    found[binding.id] = Action(place, binding.id, binding.key, binding.tooltip or binding.description)
    return list(found.values())


def _classes(module: str, name: str) -> Iterable[type[DOMNode]]:
    """A screen's class, and the app's own widget classes that its module uses."""
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return
    yield getattr(home, name)
    for value in list(vars(home).values()):
        ours = isinstance(value, type) and issubclass(value, DOMNode) and value.__module__.startswith("localspec.tui")
        if ours and value is not getattr(home, name) and ".widgets." in value.__module__:
            yield value


def own(owner: type[DOMNode]) -> Iterable[Binding]:
    """The bindings of a class and of its bases in this program."""
    for base in owner.__mro__:
        if base.__module__.startswith("localspec.tui"):
            raw: Any = base.__dict__.get("BINDINGS", [])
            yield from Binding.make_bindings(raw)


def keymap(chosen: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What Textual is given for a person's `[keys]`, and what is wrong with the rest, each in one line."""
    known = {action.id: action for action in actions()}
    good: dict[str, str] = {}
    faults: list[str] = []
    for name, keys in chosen.items():
        wrong = [key for key in keys.split(",") if not is_key(key.strip())]
        if name not in known:
            faults.append(f"keys.{name}: there is no such action; Help (F1) lists them")
        elif wrong:
            faults.append(f"keys.{name}: {wrong[0].strip()!r} is no key; write it like ctrl+x or f9")
        else:
            good[name] = ",".join(key.strip() for key in keys.split(","))
    for name, keys in good.items():
        for other, theirs in known.items():
            same = known[name].place in (theirs.place, "Everywhere") or theirs.place == "Everywhere"
            shared = set(keys.split(",")) & set(good.get(other, theirs.keys).split(","))
            if other != name and same and shared:
                faults.append(f"keys.{name}: {sorted(shared)[0]} is also the key of {other}")
    return good, faults


def is_key(text: str) -> bool:
    """Whether Textual knows a key of that name."""
    *modifiers, key = text.split("+") if len(text) > 1 else [text]
    if any(modifier not in MODIFIERS for modifier in modifiers):
        return False
    return (len(key) == 1 and key.isprintable()) or key in _NAMES


def shown(keys: str) -> str:
    """Keys for people: Ctrl+X."""
    parts = []
    for key in keys.split(","):
        words = [_WORDS.get(word, word.capitalize() if len(word) > 1 else word) for word in key.strip().split("+")]
        if len(words) > 1:
            words[-1] = words[-1].upper() if len(words[-1]) == 1 else words[-1]
        parts.append("+".join(words))
    return ", ".join(parts)


_WORDS = {"escape": "Esc", "slash": "/", "question_mark": "?", "delete": "Del", "pageup": "PgUp", "pagedown": "PgDn"}
_PUNCTUATION = (
    "slash", "question_mark", "comma", "full_stop", "colon", "semicolon", "plus", "minus", "equals_sign", "at",
    "number_sign", "asterisk", "underscore", "apostrophe", "quotation_mark", "left_square_bracket",
    "right_square_bracket", "backslash", "vertical_line", "space",
)  # fmt: skip
_NAMES = {key.value for key in Keys if "+" not in key.value and not key.value.startswith("<")} | set(_PUNCTUATION)
