"""The history: every chat that was kept, found by its words, with the colours of its tokens."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from localspec.chat.errors import HistoryError
from localspec.chat.history import History
from localspec.chat.history_rows import Branch, Chat
from localspec.chat.history_search import Hit
from localspec.chat.visible import one_line, visible
from localspec.tui import history_words
from localspec.tui.messages import ChatOpened
from localspec.tui.screens.base import AppScreen, hand_over
from localspec.tui.screens.branches import BranchesScreen
from localspec.tui.screens.dialogs import ConfirmScreen, LineScreen

LIMIT = 200
"""Chats in the list: older ones are found by searching."""


@dataclass(frozen=True, slots=True)
class Line:
    """A chat in the list, and where the search found it."""

    chat: Chat
    hit: Hit | None = None


class HistoryScreen(AppScreen):
    """The chats, the latest first: search as you type, a preview, and what can be done with one."""

    heading = "History"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="history.search", key_display="/"),
        Binding("enter", "open", "Open", id="history.open"),
        Binding("r", "rename", "Rename", id="history.rename"),
        Binding("e", "export", "Export", id="history.export"),
        Binding("b", "branches", "Branches", id="history.branches"),
        Binding("d", "delete", "Delete", id="history.delete"),
    ]
    CSS = """
    HistoryScreen {
        #problem { height: auto; max-height: 3; padding: 0 1; margin: 0 1; color: $text-warning; }
        #search { margin: 1 1 0 1; background: $surface; }
        #parts { height: 1fr; margin: 0 1; }
        #chats { height: 1fr; min-height: 4; background: $background; border: none; padding: 0; }
        #facts { height: 50%; padding: 0 1; background: $surface; }
        &.-wide #parts { layout: horizontal; }
        &.-wide #chats { width: 2fr; height: 1fr; }
        &.-wide #facts { width: 3fr; height: 1fr; margin-left: 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []
        self._previewed: tuple[int, str] | None = None

    def body(self) -> ComposeResult:
        yield Static("", id="problem", markup=False)
        yield Input(placeholder="Search titles and messages", id="search", compact=True)
        with Container(id="parts"):
            yield OptionList(id="chats", markup=False, compact=True)
            yield VerticalScroll(Static("", id="preview", markup=False), id="facts", can_focus=True)

    def on_mount(self) -> None:
        self.say(self.history.problem or "")
        self.chats.focus()
        self._look("")

    @property
    def history(self) -> History:
        """The one that the chat uses."""
        history: History = self.home.chat.desk.talk.history
        return history

    @property
    def chats(self) -> OptionList:
        return self.query_one("#chats", OptionList)

    @property
    def chosen(self) -> Line | None:
        """The chat the cursor is on."""
        at = self.chats.highlighted
        return self._lines[at] if at is not None and at < len(self._lines) else None

    @property
    def query_text(self) -> str:
        return self.query_one("#search", Input).value

    def say(self, text: str) -> None:
        """Something the person should know, above the list."""
        line = self.query_one("#problem", Static)
        line.display = bool(text)
        line.update(visible(text))

    # -- finding -----------------------------------------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="look")
    def _look(self, query: str, at: int | None = None) -> None:
        """Reads the list in a thread; the cursor then stands on the chat `at` where that is shown."""
        worker, history = get_current_worker(), self.history
        try:
            if query.strip():
                hits = history.search(query, LIMIT)
                chats = {chat.id: chat for chat in history.chats()}
                lines = [Line(chats[hit.chat], hit) for hit in hits if hit.chat in chats]
            else:
                lines = [Line(chat) for chat in history.chats(LIMIT)]
            problem = history.problem or ""
        except HistoryError as error:
            lines, problem = [], str(error)
        if not worker.is_cancelled:
            hand_over(self, self._take, lines, query, at, problem)

    def _take(self, lines: list[Line], query: str, at: int | None, problem: str) -> None:
        if not self.is_attached or query != self.query_text:
            return
        self._lines = lines
        self.say(problem)
        open_chat = self.home.chat.desk.talk.chat_id
        self.chats.clear_options()
        self.chats.add_options(Option(history_words.line(one.chat, is_open=one.chat.id == open_chat)) for one in lines)
        places = {one.chat.id: place for place, one in enumerate(lines)}
        if lines:
            self.chats.highlighted = places.get(at or -1, 0)
        count = f"{len(lines)} chat" + ("s" if len(lines) != 1 else "")
        if query.strip():
            count += " found"
        elif len(lines) == LIMIT:
            count = f"the latest {LIMIT} chats: search for older ones"
        self.aside(count)
        self._show()

    def _show(self) -> None:
        """The preview of the chat the cursor is on."""
        line, query = self.chosen, self.query_text
        if line is None:
            self._previewed = None
            empty = "No chat has these words." if query.strip() else "No chats yet. Esc goes back: ask something."
            self._put(Content.styled(empty, "dim"))
            return
        if self._previewed != (line.chat.id, query):
            self._previewed = (line.chat.id, query)
            self._preview(line, query)

    @work(thread=True, exclusive=True, group="preview")
    def _preview(self, line: Line, query: str) -> None:
        worker, history = get_current_worker(), self.history
        try:
            leaf = line.hit.message if line.hit else None
            turns = history.turns(line.chat.id, leaf)
            branches = len(history.branches(line.chat.id))
            content = history_words.preview(line.chat, turns, branches, line.hit, query)
        except HistoryError as error:
            content = Content.styled(visible(str(error)), "$text-error")
        if not worker.is_cancelled:
            hand_over(self, self._put, content)

    def _put(self, content: Content) -> None:
        if self.is_attached:
            self.query_one("#preview", Static).update(content)
            self.query_one("#facts", VerticalScroll).scroll_home(animate=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._look(event.value)

    def on_input_submitted(self) -> None:
        self.chats.focus()

    def on_option_list_option_highlighted(self) -> None:
        self._show()

    def on_option_list_option_selected(self) -> None:
        self.action_open()

    # -- doing -------------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        self.query_one("#search", Input).focus()

    def action_back(self) -> None:
        search = self.query_one("#search", Input)
        if search.value:
            search.value = ""
            self.chats.focus()
        else:
            self.dismiss()

    def action_open(self) -> None:
        """Goes on with the chat, at the branch in which the words were found."""
        line = self.chosen
        if line is None:
            return
        leaf = line.hit.message if line.hit else None
        try:
            if leaf is not None and leaf not in {turn.id for turn in self.history.turns(line.chat.id)}:
                leaf = self.history.show(leaf)
            else:
                leaf = None
        except HistoryError as error:
            self.say(str(error))
            return
        self._open(line.chat, leaf)

    def _open(self, chat: Chat, leaf: int | None) -> None:
        self.home.post_message(ChatOpened(chat.id, leaf))
        self.dismiss()

    @work
    async def action_rename(self) -> None:
        if (line := self.chosen) is None:
            return
        title = await self.home.push_screen_wait(LineScreen("Another title", history_words.title_of(line.chat)))
        if title is not None:
            self._change(lambda: self.history.update(line.chat.id, title=title), line.chat.id)

    @work
    async def action_delete(self) -> None:
        if (line := self.chosen) is None:
            return
        question = f"Delete “{history_words.title_of(line.chat)}”?"
        text = "All its messages and branches go. This cannot be undone."
        if await self.home.push_screen_wait(ConfirmScreen(question, text, yes="Delete", no="Keep", danger=True)):
            place = self._lines.index(line) if line in self._lines else 0
            neighbour = self._lines[place + 1 : place + 2] or self._lines[max(0, place - 1) : place]
            self._change(lambda: self._delete(line.chat.id), neighbour[0].chat.id if neighbour else None)

    def _delete(self, chat_id: int) -> None:
        from localspec.chat.kv import KvStore

        self.history.delete(chat_id)
        KvStore(0).forget(chat_id)
        desk = self.home.chat.desk
        if desk.talk.chat_id == chat_id:
            desk.new()

    @work
    async def action_export(self) -> None:
        if (line := self.chosen) is None:
            return
        name = re.sub(r"\W+", "-", history_words.title_of(line.chat).lower()).strip("-")[:40] or "chat"
        place = await self.home.push_screen_wait(
            LineScreen("Export to a .html, .md or .json file", str(Path.cwd() / f"{name}.html"), check=_fault_of_place)
        )
        if place is not None:
            self._export(line.chat.id, Path(place).expanduser())

    @work(thread=True)
    def _export(self, chat_id: int, place: Path) -> None:
        from localspec.chat.export import SUFFIXES, export
        from localspec.models.partial import write_atomically

        try:
            write_atomically(place, export(self.history, chat_id, SUFFIXES[place.suffix.lower()]))
            told = f"Written to {one_line(str(place))}"
        except HistoryError as error:
            told = str(error)
        except OSError as error:
            told = f"{one_line(str(place))} cannot be written: {error.strerror or error}"
        hand_over(self, self.say, told)

    @work
    async def action_branches(self) -> None:
        if (line := self.chosen) is None:
            return
        try:
            branches: list[Branch] = self.history.branches(line.chat.id)
            if len(branches) < 2:
                self.say("This chat has one branch: regenerating or editing makes others.")
                return
            leaf = await self.home.push_screen_wait(BranchesScreen(branches))
            if leaf is not None:
                self._open(line.chat, self.history.show(leaf))
        except HistoryError as error:
            self.say(str(error))

    def _change(self, change: Callable[[], None], at: int | None) -> None:
        """Does it, and reads the list again."""
        try:
            change()
        except HistoryError as error:
            self.say(str(error))
            return
        self._previewed = None
        self._look(self.query_text, at)


def _fault_of_place(text: str) -> str:
    from localspec.chat.export import SUFFIXES

    place = Path(text).expanduser()
    if place.suffix.lower() not in SUFFIXES:
        return "The name must end with .html, .md or .json."
    return "A file of that name is there already: choose another." if place.exists() else ""
