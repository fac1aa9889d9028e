"""The chat: transcript, figures, prompt. What is asked and answered is decided in `ChatDesk`; this is its face."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from localspec import paths
from localspec.chat.looks import DRAFTER_NAMES, LOOKS, drafts_with, looks_of
from localspec.chat.turns import Turn
from localspec.chat.visible import one_line, visible
from localspec.tui import looks
from localspec.tui.desk import ChatDesk
from localspec.tui.engine import EngineState
from localspec.tui.recall import Recall
from localspec.tui.screens.base import stands
from localspec.tui.screens.chat_actions import ChatActions
from localspec.tui.screens.edit_actions import EditActions
from localspec.tui.widgets.completions import Completions
from localspec.tui.widgets.findbar import FindBar
from localspec.tui.widgets.livebar import LiveBar, meter
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.sidepanel import SidePanel
from localspec.tui.widgets.tokenpanel import TokenPanel
from localspec.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp

PAINT_S = 0.066
"""Between two paints of a streaming answer: fifteen a second look steady and leave the processor to the model."""

PANEL_FROM = 110
"""Columns from which the side panel has room beside readable lines."""

WELCOME = (
    "Ask something, attach a file with @path,",
    "or change one: /edit FILE INSTRUCTION.",
    "",
    "Every token is coloured by where it came from:",
    "guesses that were right cost no pass of their own.",
)


class ChatScreen(ChatActions, EditActions, Screen[None]):
    """One chat with the engine."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", id="chat.stop"),
        Binding("ctrl+c", "interrupt", "Stop, copy or quit", id="chat.interrupt", show=False, priority=True),
        Binding("ctrl+n", "new_chat", "New", id="chat.new", priority=True),
        Binding("ctrl+r", "regenerate", "Another answer", id="chat.regenerate", show=False, priority=True),
        Binding("ctrl+g", "go_on", "Go on", id="chat.go_on", show=False, priority=True),
        Binding("ctrl+t", "edit_file", "Change a file (/edit)", id="chat.edit_file", show=False, priority=True),
        Binding("ctrl+f", "find", "Find", id="chat.find", show=False, priority=True),
        Binding("ctrl+l", "markdown", "Markdown / tokens", id="chat.markdown", show=False, priority=True),
        Binding("f2", "panel", "Panel", id="chat.panel"),
        Binding("f7", "mouse", "Mouse on / off", id="chat.mouse", show=False, priority=True),
        Binding("f8", "copy_answer", "Copy", id="chat.copy", show=False),
        Binding("f9", "restart", "Restart the engine", id="chat.restart", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._painted = 0.0
        self._panel: bool | None = None

    @property
    def home(self) -> "LocalspecApp":
        """The app, by its own type."""
        return cast("LocalspecApp", self.app)

    def compose(self) -> ComposeResult:
        recall = Recall(paths.state_dir() / "prompts.jsonl" if self.home.settings.history else None)
        completions = Completions()
        with Horizontal(id="head"):
            yield Static("", id="pair", markup=False)
            yield Static("", id="state", markup=False)
        with Horizontal(id="middle"):
            with Vertical(id="main"):
                yield Transcript(id="transcript")
                yield Static(Content("\n").join(map(Content, WELCOME)), id="welcome", markup=False)
            yield SidePanel(id="panel")
        yield TokenPanel()
        yield FindBar()
        yield Static("", id="legend", markup=False)
        yield LiveBar()
        yield Static("", id="notice", markup=False)
        yield completions
        yield Static("", id="fetching", markup=False)
        yield Static("", id="attached", markup=False)
        yield Prompt(completions, recall, id="prompt")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.desk = ChatDesk(self)
        self.apply_settings()
        self.query_one(Prompt).focus()
        self.show_engine(self.home.engine)
        self.desk.begin()

    # -- what others say ---------------------------------------------------------------------------------------------

    def apply_settings(self) -> None:
        """The way looks are told, as the settings want it."""
        transcript = self.query_one(Transcript)
        marks = self.home.settings.color == "marks"
        if transcript.marks != marks:
            transcript.marks = marks
            transcript.redraw()
        self.show_legend()

    def show_engine(self, state: EngineState) -> None:
        """What the engine does now: in the head, and as a notice when it wants the person."""
        if not self.is_mounted:
            return
        pair = named(state)
        self.query_one("#pair", Static).update(
            Content.assemble(("localspec", "bold $text-primary"), (f"  {pair}", "bold"), f"  {self._files(state)}")
        )
        words = {
            "none": Content("no model"),
            "loading": Content.assemble("loading ", meter(state.progress, 10), f" {state.progress:4.0%}"),
            "ready": Content.styled("ready", "$text-success"),
            "answering": Content.styled("answering", "$text-accent"),
            "broken": Content.styled("stopped", "bold $text-error"),
        }
        lent = Content.styled("answering for a command", "$text-accent")
        if state.lent and state.phase == "answering":
            lent = Content.assemble(lent, ", then you")
        self.query_one("#state", Static).update(lent if state.lent else words[state.phase])
        self.desk.engine_changed(state)

    def _files(self, state: EngineState) -> str:
        """What is loaded: by name where there is room, else in words."""
        info = state.info
        if info is None:
            return ""
        if self.size.width < PANEL_FROM:
            return f"with a {DRAFTER_NAMES[info.drafter]}" if info.drafter else "drafting by lookup"
        draft = drafts_with(info.drafter, info.draft)
        return one_line(f"{info.target} + {draft}" if draft else info.target)

    def events_ready(self) -> None:
        """The engine has said something: painted now, or when the next paint is due."""
        wait = self._painted + PAINT_S - time.monotonic()
        if wait <= 0:
            self._paint()
        else:
            self.set_timer(wait, self._paint)

    def _paint(self) -> None:
        self._painted = time.monotonic()
        # While the app leaves, its widgets go before the engine has said its last.
        if stands(self):
            self.desk.take(self.home.keeper.take())

    def open_chat(self, chat_id: int, message_id: int | None) -> None:
        self.desk.open(chat_id, message_id)

    def downloads_changed(self, name: str) -> None:
        """A model is being fetched while the chat goes on: one line, gone when it is done."""
        from localspec.tui import menu_words

        line, download = self.query_one("#fetching", Static), self.home.downloads.current
        line.display = download is not None
        if download is not None:
            line.update(menu_words.progress(download, self.size.width))

    def suggest(self, text: str, *, send: bool) -> None:
        self.query_one(Prompt).fill(text)
        if send:
            self.desk.send(text)

    # -- what the desk shows -----------------------------------------------------------------------------------------

    def show_turns(self, turns: list[Turn]) -> None:
        self.query_one(Transcript).sync(turns, named(self.home.engine) or "answer")
        self.query_one("#welcome").display = not turns
        self.query_one(Transcript).display = bool(turns)

    def show_live(self) -> None:
        info = self.home.engine.info
        self.query_one(LiveBar).show(self.desk.live, info.context if info else 0)
        self.query_one(SidePanel).decide(self.desk.live)

    def show_session(self) -> None:
        self.query_one(SidePanel).show(self.desk.session)

    def show_legend(self) -> None:
        """The looks that can occur; and, while it streams out of sight, how to get back to the end."""
        started = self.desk.live.started if hasattr(self, "desk") else None
        shown = LOOKS if started is None else looks_of(started)
        transcript = self.query_one(Transcript)
        line = looks.legend(shown, marks=transcript.marks) if shown else Content.styled("drafting off", "$text-muted")
        if not transcript.following:
            line = Content.assemble(("▼ more below (End)  ", "$text-warning"), line)
        self.query_one("#legend", Static).update(line, layout=False)

    def show_attached(self, found: Sequence[tuple[str, int | str]]) -> None:
        """The attached files with their sizes in tokens, or why they cannot be attached."""
        line = self.query_one("#attached", Static)
        parts = []
        for spelled, size in found:
            if isinstance(size, int):
                parts.append(Content.assemble((one_line(spelled), "bold"), f" {size:,} tokens"))
            else:
                parts.append(Content.styled(one_line(size), "$text-error"))
        line.update(Content("   ").join(parts))
        line.display = bool(parts)

    def say(self, text: str, kind: str = "plain") -> None:
        """A line above the prompt; "" takes it away. `kind`: plain, warning or error."""
        notice = self.query_one("#notice", Static)
        styles = {"plain": "$text-muted", "warning": "$text-warning", "error": "$text-error"}
        notice.update(Content.styled(visible(text), styles[kind]))
        notice.display = bool(text)
        if text:
            self.home.journal.add(text)

    # -- events ------------------------------------------------------------------------------------------------------

    def on_prompt_sent(self, message: Prompt.Sent) -> None:
        self.desk.send(message.text)

    def on_prompt_editor_wanted(self) -> None:
        self.action_editor()

    def on_text_area_changed(self) -> None:
        self.desk.typed()

    def on_transcript_cursor_moved(self, message: Transcript.CursorMoved) -> None:
        self.query_one(TokenPanel).show(message.turn, message.token)

    def on_transcript_following_changed(self) -> None:
        self.show_legend()

    def on_find_bar_sought(self, message: FindBar.Sought) -> None:
        transcript = self.query_one(Transcript)
        if message.text != transcript.needle:
            transcript.find(message.text)
            self.query_one(FindBar).say(f"{transcript.found} found" if message.text else "")

    def on_find_bar_stepped(self, message: FindBar.Stepped) -> None:
        transcript = self.query_one(Transcript)
        if message.text != transcript.needle:
            transcript.find(message.text)
        at = transcript.next_found(message.step)
        self.query_one(FindBar).say(f"{at} of {transcript.found}" if at else "nothing found")

    def on_find_bar_closed(self) -> None:
        self.query_one(Transcript).find("")
        self.query_one(Prompt).focus()

    def on_resize(self) -> None:
        self._show_panel()
        self.show_engine(self.home.engine)

    def _show_panel(self) -> None:
        """By the person's wish, else by the room there is."""
        room = self.size.width >= PANEL_FROM
        self.query_one(SidePanel).display = room if self._panel is None else self._panel


def named(state: EngineState) -> str:
    """What answers, by a short name: the pair's, or the file's."""
    return one_line(Path(state.choice.name).name) if state.choice else ""
