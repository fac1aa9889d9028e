"""The model menu: pairs to chat with, what is known of each, and fetching them while the chat goes on."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Input, Static

from localspec.chat.visible import one_line, visible
from localspec.models.catalog import Catalog
from localspec.models.hardware import Machine
from localspec.models.rows import FileState, Row
from localspec.tui import menu_words
from localspec.tui.downloads import Download
from localspec.tui.screens.base import AppScreen, hand_over

if TYPE_CHECKING:
    from localspec.models.removal import Plan

WELCOME = (
    "Welcome. localspec needs a language model on this disk; nothing you type ever leaves this machine.\n"
    "Press Enter to fetch the pair to begin with; then the chat opens."
)
WELCOME_HERE = "Welcome. Press Enter to chat with the pair that is here, or choose another."
HERE = list(menu_words.COLUMNS).index("Here")
EMPTY = "The menu is empty. Press A to add a model file of yours or a hub repository."


@dataclass
class _Known:
    """What was read from this disk. `rows` and `singles` by name, in the menu's order."""

    catalog: Catalog = field(default_factory=lambda: Catalog({}, {}))
    machine: Machine | None = None
    rows: dict[str, Row] = field(default_factory=dict)
    singles: dict[str, FileState] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


class MenuScreen(AppScreen):
    """Pairs with what is known of them. With `first_run` it welcomes, and begins at the starter."""

    heading = "Models"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="menu.search", key_display="/", tooltip="Search the pairs"),
        Binding(
            "p", "fetch", "Fetch", id="menu.fetch", tooltip="Fetch the pair, and go on chatting with the one in use"
        ),
        Binding(
            "u",
            "use_now",
            "No draft",
            id="menu.use_now",
            tooltip="Chat with the target alone while its draft is missing",
        ),
        Binding(
            "x",
            "cancel_download",
            "Stop",
            id="menu.cancel",
            tooltip="Stop fetching; what is here is kept, Enter goes on",
        ),
        Binding("a", "add", "Add", id="menu.add", tooltip="Add model files of yours, or a hub repository"),
        Binding("d", "remove", "Delete", id="menu.remove", tooltip="Delete the files that were fetched for the pair"),
        Binding("r", "refresh", "Look again", id="menu.refresh", show=False, tooltip="Look at this disk again"),
    ]
    CSS = """
    MenuScreen {
        #welcome { padding: 0 1; color: $text; background: $surface; border-left: thick $success; margin: 1 1 0 1; }
        #problems { height: auto; max-height: 5; padding: 0 1; margin: 0 1; color: $text-warning; }
        #search { margin: 1 1 0 1; background: $surface; }
        #parts { height: 1fr; margin: 0 1; }
        #rows { height: 1fr; min-height: 4; background: $background; scrollbar-size-horizontal: 0; }
        #facts { height: auto; max-height: 50%; padding: 0 1; background: $surface; }
        #downloads { height: auto; max-height: 4; padding: 0 1; margin: 0 1; }
        &.-wide #parts { layout: horizontal; }
        &.-wide #rows { width: 78; height: 1fr; }
        &.-wide #facts { width: 1fr; height: 1fr; max-height: 100%; margin-left: 1; }
    }
    """

    def __init__(self, *, first_run: bool = False) -> None:
        super().__init__()
        self.first_run = first_run
        self._known = _Known()
        self._shown: list[str] = []
        self._wanted: str | None = None

    def body(self) -> ComposeResult:
        yield Static("", id="welcome", markup=False)
        yield VerticalScroll(Static("", id="problem-lines", markup=False), id="problems")
        yield Input(placeholder="Search pairs", id="search", compact=True)
        with Container(id="parts"):
            yield DataTable(id="rows", cursor_type="row", zebra_stripes=False, cell_padding=1)
            with VerticalScroll(id="facts"):
                yield Static("", id="details-title", markup=False)
                yield Static("", id="details", markup=False)
        yield Static("", id="downloads", markup=False)

    def on_mount(self) -> None:
        self.query_one("#welcome").display = False
        self.query_one("#problems").display = False
        for heading, width in menu_words.COLUMNS.items():
            self.table.add_column(heading, width=width)
        self.table.focus()
        self.aside("looking at this disk …")
        self.show_downloads()
        self.action_refresh()

    @property
    def table(self) -> "DataTable[Text]":
        return self.query_one("#rows", DataTable)

    @property
    def chosen(self) -> str | None:
        """The name of the line the cursor is on."""
        row = self.table.cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    # -- reading -----------------------------------------------------------------------------------------------------

    def action_refresh(self) -> None:
        self._read()

    @work(thread=True, exclusive=True)
    def _read(self) -> None:
        from localspec import paths
        from localspec.chat import config
        from localspec.models import catalog, hardware, rows
        from localspec.models import settings as model_settings

        found = catalog.load()
        machine = hardware.read_machine(paths.cache_dir())
        problems = [*found.problems, *config.load().problems, *model_settings.load().problems]
        known = _Known(
            found,
            machine,
            {row.pair.key: row for row in rows.rows(found, machine)},
            {one.file.key: one for one in rows.singles(found)},
            tuple(dict.fromkeys(one_line(str(problem)) for problem in problems)),
        )
        hand_over(self, self._take, known)

    def _take(self, known: _Known) -> None:
        if not self.is_attached:
            return
        first = self._known.machine is None
        self._known = known
        if known.machine is not None:
            self.aside(menu_words.machine_line(known.machine))
        lines = list(known.problems)
        error = self.home.engine.error
        if error and not self.first_run:
            lines.insert(0, error)
        self.query_one("#problems").display = bool(lines)
        self.query_one("#problem-lines", Static).update(visible("\n".join(lines)))
        if self.first_run:
            starter = known.catalog.starter()
            here = starter is not None and known.rows[starter.key].state == "here"
            welcome = self.query_one("#welcome", Static)
            welcome.display = True
            welcome.update(WELCOME_HERE if here else WELCOME if known.rows else EMPTY)
        at, self._wanted = self._wanted or (self._first_choice() if first else self.chosen), None
        self._fill(at)

    def _first_choice(self) -> str | None:
        choice = self.home.engine.choice
        if choice is not None and not self.first_run:
            return choice.name
        starter = self._known.catalog.starter()
        return starter.key if starter else None

    # -- showing -----------------------------------------------------------------------------------------------------

    def _fill(self, at: str | None) -> None:
        """Draw the table anew for the search, the cursor on `at` where that is shown."""
        words = self.query_one("#search", Input).value.lower().split()
        known, table = self._known, self.table
        table.clear()
        self._shown = []
        for name, row in known.rows.items():
            text = " ".join((name, row.pair.title, row.pair.purpose, menu_words.licences(row), row.state)).lower()
            if all(word in text for word in words):
                self._shown.append(name)
                table.add_row(*menu_words.cells(row, in_use=self._in_use(name), download=self._download(name)))
        for name, one in known.singles.items():
            if all(word in f"{name} {one.file.name} {one.file.licence}".lower() for word in words):
                self._shown.append(name)
                in_use = self._in_use(name)
                table.add_row(*menu_words.single_cells(one, in_use=in_use, download=self._download(name)))
        if at in self._shown:
            table.move_cursor(row=self._shown.index(at))
        self._show_details()

    def _in_use(self, name: str) -> bool:
        engine = self.home.engine
        return engine.choice is not None and engine.choice.name == name and engine.phase != "broken"

    def _download(self, name: str) -> Download | None:
        return self.home.downloads.get(name)

    def _show_details(self) -> None:
        details, heading = self.query_one("#details", Static), self.query_one("#details-title", Static)
        name = self.chosen
        if name is None:
            heading.update("")
            details.update(EMPTY if not self._known.rows else "Nothing matches the search.")
            if self._known.machine is None:
                details.update("")
            return
        if row := self._known.rows.get(name):
            title, facts = menu_words.title(row, in_use=self._in_use(name)), menu_words.details(row)
        else:
            title, facts = one_line(name), menu_words.single_details(self._known.singles[name])
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=9, no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in facts:
            grid.add_row(Text(label, style="dim"), Text(text))
        heading.update(Content.styled(title, "bold"))
        details.update(grid)

    def show_downloads(self) -> None:
        """Draw the downloads' lines, and the figures of the table with them."""
        shown = [one for one in self.home.downloads.all if one.active or one.error or one.phase == "done"]
        widget = self.query_one("#downloads", Static)
        widget.display = bool(shown)
        widget.update(Content("\n").join(menu_words.progress(one, self.size.width) for one in shown[-3:]))
        for index, name in enumerate(self._shown):
            download = self._download(name)
            if download is not None and download.active and (row := self._known.rows.get(name)):
                word = Text(menu_words.here_word(row, download))
                self.table.update_cell_at(Coordinate(index, HERE), word)

    def downloads_changed(self, name: str) -> None:
        """The app says that a download moved, or ended."""
        self.show_downloads()
        download = self._download(name)
        if download is not None and not download.active:
            self.action_refresh()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(self.chosen)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.table.focus()

    def on_data_table_row_highlighted(self, event: "DataTable.RowHighlighted") -> None:
        self._show_details()

    def on_data_table_row_selected(self, event: "DataTable.RowSelected") -> None:
        self._choose()

    # -- doing -------------------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """Enter: chat with what is here, fetch what is not."""
        name = self.chosen
        if name is None:
            return
        if row := self._known.rows.get(name):
            if row.state == "here":
                self._use(name)
            else:
                self._start(name, use=True)
        elif self._known.singles[name].path is not None:
            self._use(name)
        else:
            self._start(name, use=True)

    def _use(self, name: str) -> None:
        self.home.choose_pair(name)
        self.dismiss()

    def _start(self, name: str, *, use: bool) -> None:
        self.home.downloads.start(name, use=use)
        self.show_downloads()

    def action_search(self) -> None:
        self.query_one("#search", Input).focus()

    def action_fetch(self) -> None:
        if self.chosen is not None:
            self._start(self.chosen, use=False)

    def action_use_now(self) -> None:
        row = self._known.rows.get(self.chosen or "")
        if row is not None and row.state in ("here", "target only"):
            self._use(row.pair.key)

    def action_cancel_download(self) -> None:
        """Stop the download of the line the cursor is on, else the one that runs."""
        chosen = self._download(self.chosen or "")
        download = chosen if chosen is not None and chosen.active else self.home.downloads.current
        if download is not None:
            self.home.downloads.cancel(download.name)

    def action_add(self) -> None:
        from localspec.tui.screens.add import AddScreen

        self.app.push_screen(AddScreen(), self._added)

    def _added(self, name: str | None) -> None:
        if name is not None:
            self.query_one("#search", Input).value = ""
            self._wanted = name
            self.action_refresh()

    def action_remove(self) -> None:
        if self.chosen is not None:
            self._plan_removal(self.chosen)

    @work(thread=True)
    def _plan_removal(self, name: str) -> None:
        from localspec.chat.errors import reason_of
        from localspec.models import removal

        try:
            plan = removal.plan(name)
        except Exception as error:
            self.app.call_from_thread(self.app.notify, reason_of(error), severity="error", markup=False)
            return
        hand_over(self, self._ask_removal, plan)

    def _ask_removal(self, plan: "Plan") -> None:
        from localspec.tui.screens.dialogs import ConfirmScreen

        def answered(yes: bool | None) -> None:
            if yes:
                self._remove(plan)

        text, yes = menu_words.removal(plan)
        if yes:
            self.app.push_screen(ConfirmScreen(f"Delete {plan.name}?", text, yes=yes, no="Keep", danger=True), answered)
        else:
            self.app.notify(text, markup=False)

    @work(thread=True)
    def _remove(self, plan: "Plan") -> None:
        from localspec.chat.errors import reason_of
        from localspec.models import removal
        from localspec.models.partial import human

        try:
            said = f"{human(removal.carry_out(plan))} freed"
        except Exception as error:
            said = reason_of(error)
        self.app.call_from_thread(self.app.notify, said, markup=False)
        hand_over(self, self.action_refresh)
