"""Help: the keys as they are bound now, and what the colours and the numbers mean, in plain words."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from localspec.chat.looks import NAMES
from localspec.tui import keys, looks
from localspec.tui.screens.base import AppScreen

INTRODUCTION = (
    "A small, quick guesser proposes the next few tokens; the model checks them all in one pass and keeps those that "
    "are exactly what it would have said. Where a guess is wrong the model's own token takes its place. So the text is "
    "the model's own, only sooner; the colours show where each token came from."
)

COLOURS: tuple[tuple[str, str], ...] = (
    ("lookup", "guessed from text that stood in this chat before, and kept: code and quotations give long runs of it"),
    ("draft", "guessed by the draft model, and kept"),
    ("resampled", "a guess was wrong here: the model put its own token instead"),
    ("bonus", "every guess of a cycle was right, and the same pass gave one more token for free"),
    ("plain", "nothing was guessed: the model worked token by token"),
    ("rejected", "a guess that was thrown away; shown only when you ask for it"),
)

FILES = (
    ("@path", "attaches a file to a question, or to the instruction of an edit"),
    ("/edit FILE[:A-B] …", "has the file, or its lines A to B, changed as you say. Most of such an answer is copied, "
                           "which is where guessing gains most. Nothing is written before you have seen the changes"),
    ("/diff", "shows the changes of the last edit again"),
    ("/undo [FILE]", "brings back what the last edit replaced"),
    ("in the chat", "Shift+Tab, then p puts the code under the cursor, or what the mouse selected, into the prompt; E "
                    "makes it an edit of the file it came from"),
)  # fmt: skip

NUMBERS = (
    ("tokens/s", "how fast tokens come while answering, without reading the prompt"),
    ("speed-up", "that speed over the model's plain speed, measured on this machine at the same context length; the "
                 "baseline is named. Below 1.0 drafting stops by itself"),
    ("accepted", "how many of the guesses that were checked were kept"),
    ("tokens/cycle", "how many tokens one pass of the model gave; plain decoding gives 1"),
    ("decision", "what was tried last, and on which estimate: so many tokens for the time of so many plain passes"),
    ("copied from", "the file and line that a guess by lookup was taken from"),
    ("chat, edits", "both apart: an edit mostly copies, so it gains more than talk"),
    ("draft length", "how many tokens are guessed at a time; it follows what pays here"),
    ("context", "how much of what the model can look back on is used"),
    ("first token", "how long reading the prompt took (TTFT)"),
    ("per token", "time between tokens afterwards (ITL); only this is what guessing speeds up"),
    ("reused", "tokens of the prompt that were still known from before and need not be read again"),
    ("–", "nothing was measured that could stand here"),
)  # fmt: skip


class HelpScreen(AppScreen):
    """One page to scroll."""

    heading = "Help"
    CSS = """
    HelpScreen {
        #help { height: 1fr; padding: 0 2; }
        .help-title { text-style: bold; color: $primary; margin-top: 1; }
    }
    """

    def body(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static("What you see", classes="help-title", markup=False)
            yield Static(INTRODUCTION, markup=False)
            yield Static("Colours", classes="help-title", markup=False)
            yield Static("", id="help-colours", markup=False)
            yield Static("Files", classes="help-title", markup=False)
            yield Static(_grid(FILES, 22), id="help-files", markup=False)
            yield Static("Numbers", classes="help-title", markup=False)
            yield Static(_grid(NUMBERS, 18), id="help-numbers", markup=False)
            yield Static("Keys", classes="help-title", markup=False)
            yield Static("", id="help-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#help").focus()
        self._show_colours()
        self.watch(self.app, "theme", self._show_colours, init=False)
        remapped, faults = keys.keymap(self.home.config.keys if self.home.config else {})
        table = Table.grid(padding=(0, 2, 0, 0))
        for width in (18, 30, None):
            table.add_column(width=width, overflow="fold")
        place = ""
        for action in keys.actions():
            if action.place != place:
                place = action.place
                table.add_row(Text(place, style="bold"), Text(""), Text(""))
            key = keys.shown(remapped.get(action.id, action.keys))
            table.add_row(Text(key), Text(action.description), Text(action.id, style="dim"))
        for fault in faults:
            table.add_row(Text("wrong", style="bold"), Text(fault), Text("in the config file"))
        self.query_one("#help-keys", Static).update(table)
        self.aside("keys can be changed in the config file")

    def _show_colours(self) -> None:
        names: dict[str, str] = dict(NAMES.items())
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=22)
        grid.add_column(overflow="fold")
        for look, words in COLOURS:
            style = looks.rich_style(look, self.app.theme_variables)
            grid.add_row(Text.assemble((names.get(look, look), style)), Text(words))
        self.query_one("#help-colours", Static).update(grid)


def _grid(rows: tuple[tuple[str, str], ...], width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=width)
    grid.add_column(overflow="fold")
    for name, words in rows:
        grid.add_row(Text(name, style="bold"), Text(words))
    return grid
