"""The log: what llama.cpp wrote and what the app did, in one list that can be filtered and follows."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Log, Static

from localspec import paths
from localspec.chat.visible import one_line
from localspec.engine.logfile import read_tail
from localspec.tui.screens.base import AppScreen

TAIL_BYTES = 64 * 1024
"""How much of an old log is shown: a few loads of a model."""
POLL_S = 0.5
MOST_LINES = 5000


@dataclass(frozen=True, slots=True)
class Line:
    """`source` is "app" or "engine"."""

    source: str
    text: str

    @property
    def shown(self) -> str:
        return f"{self.source:<6} {self.text}"


class EngineTail:
    """The lines a log file gets, from its last ones on. A file that was moved aside is begun anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = -1
        self._rest = ""

    def read(self) -> list[Line]:
        """The complete lines since the last call."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return []
        if self._offset < 0 or size < self._offset:
            self._offset, self._rest = max(0, size - TAIL_BYTES), ""
        text = read_tail(self.path, self._offset, max(size - self._offset, 1))
        self._offset = size
        *lines, self._rest = (self._rest + text).split("\n")
        return [Line("engine", one_line(line)) for line in lines if line.strip()]


def newest_log() -> Path:
    """The log written to last: a second localspec has one of its own."""

    def written(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    first = paths.log_file()
    return max((first, *first.parent.glob(f"{first.stem}-*{first.suffix}")), key=written)


class LogScreen(AppScreen):
    """Follows while the end is in sight; scrolling up holds it."""

    heading = "Log"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash", "filter", "Filter", id="log.filter", key_display="/", tooltip="Show only lines that contain a text"
        ),
        Binding("e", "only('engine')", "Engine", id="log.engine", tooltip="Show only what llama.cpp wrote"),
        Binding("a", "only('app')", "App", id="log.app", tooltip="Show only what the app did"),
        Binding("b", "only('')", "Both", id="log.both", tooltip="Show both"),
        Binding("end", "follow", "Follow", id="log.follow", tooltip="Go to the end, and follow"),
    ]
    CSS = """
    LogScreen {
        #filter { margin: 1 1 0 1; background: $surface; }
        #lines { height: 1fr; margin: 0 1; background: $background; scrollbar-size-horizontal: 1; }
        #log-empty { padding: 0 1; margin: 0 1; color: $text-muted; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []
        self._journal = 0
        self._tail = EngineTail(paths.log_file())
        self._source = ""

    def body(self) -> ComposeResult:
        yield Input(placeholder="Show only lines that contain …", id="filter", compact=True)
        yield Static("Nothing was written yet.", id="log-empty", markup=False)
        yield Log(id="lines", max_lines=MOST_LINES, highlight=False)

    def on_mount(self) -> None:
        self.query_one(Log).focus()
        self._poll()
        self.set_interval(POLL_S, self._poll)

    def _poll(self) -> None:
        """Take what came since, and show it at the end."""
        entries = self.home.journal.after(self._journal)
        if entries:
            self._journal = entries[-1].number
        path = newest_log()
        if path != self._tail.path:
            self._tail = EngineTail(path)
        new = [
            *self._tail.read(),
            *(Line("app", f"{time.strftime('%H:%M:%S', time.localtime(e.at))} {one_line(e.text)}") for e in entries),
        ]
        self._lines = (self._lines + new)[-MOST_LINES:]
        shown = [line for line in new if self._matches(line)]
        if shown:
            # The widget follows by itself, while its end is in sight.
            self.query_one(Log).write_lines(line.shown for line in shown)
        self._say()

    def _matches(self, line: Line) -> bool:
        words = self.query_one("#filter", Input).value.lower().split()
        return self._source in ("", line.source) and all(word in line.shown.lower() for word in words)

    def _refill(self) -> None:
        log = self.query_one(Log)
        log.clear()
        log.write_lines((line.shown for line in self._lines if self._matches(line)), scroll_end=True)
        self._say()

    def _say(self) -> None:
        shown = self.query_one(Log).line_count
        self.query_one("#log-empty").display = not shown
        self.query_one("#log-empty", Static).update(
            "No line contains that." if self._lines else "Nothing was written yet."
        )
        self.aside(f"{shown} of {len(self._lines)} lines · {one_line(str(self._tail.path))}")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._refill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.query_one(Log).focus()

    def action_filter(self) -> None:
        self.query_one("#filter", Input).focus()

    def action_only(self, source: str) -> None:
        self._source = source
        self._refill()

    def action_follow(self) -> None:
        self.query_one(Log).scroll_end(animate=False)
