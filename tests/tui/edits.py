"""A file to be edited, and answers of a model to that."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from localspec.engine.events import Reason, Source
from localspec.tui.screens.changes import ChangesScreen
from localspec.tui.widgets.diffview import DiffView
from tests.fake_engine import Say, Script, Step, plain
from tests.tui.helpers import Bench, until

OLD = '''\
"""Books."""


class Shelf:
    """Books in order, and who has which."""

    def __init__(self, name, days=21):
        self.name = name
        self.days = days
        self.books = {}
        self.readers = {}

    def add(self, number, title):
        """Puts a book on the shelf."""
        if number in self.books:
            raise ValueError(f"number {number} is taken by {self.books[number]}")
        self.books[number] = title

    def titles(self):
        return sorted(self.books.values())
'''
NEW = (
    OLD.replace("class Shelf", "class Bookcase")
    .replace("name, days=21", "name: str, days: int = 21")
    .replace("titles(self)", "titles(self) -> list[str]")
)
"""Two changes: the first has the class and `__init__`, the second `titles`."""

FIRST = OLD.replace("class Shelf", "class Bookcase").replace("name, days=21", "name: str, days: int = 21")


def fenced(text: str) -> str:
    return f"```python\n{text}```\n"


def script(text: str, reason: Reason = "end_of_text", file: str = "shelf.py") -> Script:
    """An answer whose words are copied nine at a time."""
    words = re.findall(r"\s*\S+|\s+$", text)
    steps: list[Step] = [*plain(words[0])]
    for at in range(1, len(words), 10):
        *accepted, last = words[at : at + 10]
        source = Source(file, 1 + text.count("\n", 0, len("".join(words[:at]))))
        steps.append(Say(accepted, ("bonus", last), source=source, proposed=len(accepted), expected=8.2, gain=2.9))
    return Script(steps, reason=reason, plain_tokens_per_s=200.0)


def write(folder: Path, text: str = OLD) -> Path:
    """The file as it is before the edit, where the app is started."""
    file = folder / "shelf.py"
    file.write_text(text)
    return file


async def proposed(pilot: Pilot[Any], bench: Bench, command: str = "/edit shelf.py add type hints") -> DiffView:
    """Asks for an edit and waits until its changes are shown."""
    await bench.type(pilot, command)
    await until(pilot, lambda: isinstance(bench.app.screen, ChangesScreen), f"the changes; {bench.notice}")
    await until(pilot, lambda: bench.app.screen.query(DiffView))
    view = bench.app.screen.query_one(DiffView)
    await until(pilot, lambda: view.has_focus and view.text)
    return view


def answers(*texts: str) -> Sequence[Script]:
    return [script(fenced(text)) for text in texts]
