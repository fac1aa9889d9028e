"""Commands, and paths that complete what stands behind an `@` or `/edit` in the prompt, in a list above it."""

import os
import re
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from localspec.chat.visible import one_line
from localspec.tui.commands import COMPLETED as COMMANDS

MOST = 200
"""Entries of a folder that are looked at: enough to complete, quick on a slow disk."""

SHOWN = 6

_COMMAND = re.compile(r"/[a-z]*$")
_FILE = re.compile(r"\s*/(?:edit|undo)\s+@?(\"[^\"\n]*|[^\s\":]*)$")
_MENTION = re.compile(r"(?:^|\s)@(\"[^\"\n]*|[^\s\"]*)$")


def mention_before(text: str) -> str | None:
    """What stands between `@` and the cursor (the opening quote included); None when the word is no mention."""
    match = _MENTION.search(text)
    return match.group(1) if match else None


def begun(before: str, *, first: bool) -> str | None:
    """The word before the cursor that can be completed, out of its line up to there; None when there is none. On the
    `first` line it may be a command or a command's file."""
    if first and _COMMAND.fullmatch(before):
        return before
    if first and (match := _FILE.match(before)):
        return match.group(1)
    return mention_before(before)


def completing(before: str, folder: Path, *, first: bool) -> list[str]:
    """What the word before the cursor can become."""
    typed = begun(before, first=first)
    if typed is None:
        return []
    if first and _COMMAND.fullmatch(before):
        found = [name for name in COMMANDS if name.startswith(before)]
    else:
        found = candidates(typed, folder)
    return [] if found == [typed] else found


def candidates(typed: str, folder: Path) -> list[str]:
    """Completions of a mention, as they would be written: folders end in a slash, blanks are quoted."""
    bare = typed.removeprefix('"')
    head, _, start = bare.rpartition("/")
    place = folder / Path(f"{head}/" if head or bare.startswith("/") else ".").expanduser()
    names: list[str] = []
    try:
        with os.scandir(place) as entries:
            for entry, _ in zip(entries, range(MOST), strict=False):
                hidden = entry.name.startswith(".") and not start.startswith(".")
                if not hidden and entry.name.lower().startswith(start.lower()) and entry.name.isprintable():
                    names.append(entry.name + ("/" if entry.is_dir() else ""))
    except (OSError, ValueError):
        return []
    prefix = f"{head}/" if head or bare.startswith("/") else ""
    written = []
    for name in sorted(names, key=lambda name: (name.lower(), name)):
        path = prefix + name
        closed = "" if name.endswith("/") else '"'
        written.append(f'"{path}{closed}' if " " in path else path)
    return written


class Completions(Static):
    """Hidden while there is nothing to complete. Never takes the focus: the prompt asks it."""

    DEFAULT_CSS = """
    Completions { height: auto; max-height: 7; padding: 0 2; background: $panel; display: none; }
    Completions.-open { display: block; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._found: list[str] = []
        self._at: int | None = None

    @property
    def is_open(self) -> bool:
        return bool(self._found)

    @property
    def chosen(self) -> str | None:
        """What the arrow keys chose; None while they were not used."""
        return self._found[self._at] if self._at is not None and self._found else None

    @property
    def first(self) -> str | None:
        return self._found[0] if self._found else None

    def look(self, before: str, folder: Path, *, first: bool) -> None:
        """Shows what completes the word at the end of `before`; nothing when that is the whole name already."""
        self._found = completing(before, folder, first=first)
        self._at = None
        self._draw()

    def step(self, step: int) -> None:
        last = len(self._found) - 1
        self._at = (0 if step > 0 else last) if self._at is None else min(last, max(0, self._at + step))
        self._draw()

    def close(self) -> None:
        self._found, self._at = [], None
        self._draw()

    def _draw(self) -> None:
        self.set_class(self.is_open, "-open")
        at = self._at or 0
        top = max(0, at - SHOWN + 1)
        lines = []
        for index, path in enumerate(self._found[top : top + SHOWN], top):
            style = "reverse" if index == self._at else ""
            lines.append(Content.styled(f" {one_line(path)} ", style))
        more = len(self._found) - top - SHOWN
        if more > 0:
            lines.append(Content.styled(f" {more} more", "$text-muted"))
        self.update(Content("\n").join(lines))
