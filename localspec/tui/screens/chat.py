"""The chat: transcript and prompt."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from localspec.chat.conversation import Conversation
from localspec.chat.splitting import Part
from localspec.chat.templates import ChatTemplate
from localspec.chat.thinking import plan
from localspec.chat.visible import visible
from localspec.engine.events import Finished
from localspec.tui.engine import EngineState


class ChatScreen(Screen[None]):
    """One chat with the engine."""

    def __init__(self) -> None:
        super().__init__()
        self.talk = Conversation()
        self.shown = ""

    def compose(self) -> ComposeResult:
        yield Static("", id="status", markup=False)
        with VerticalScroll():
            yield Static("", id="transcript", markup=False)
        yield Input(id="prompt")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def show_engine(self, state: EngineState) -> None:
        self.query_one("#status", Static).update(Content(f"{state.phase} {state.error}"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        from localspec.tui.app import LocalspecApp

        assert isinstance(self.app, LocalspecApp)
        info = self.app.engine.info
        if info is None or not self.app.engine.can_answer:
            return
        event.input.clear()
        template = ChatTemplate.of(info)
        thinking = plan(template, self.app.settings.think)
        self.talk.ask(event.value)
        self.shown += f"\n> {visible(event.value)}\n"
        prompt = self.talk.prompt(template, thinking)
        request = self.app.settings.request(prompt, keep_control=thinking.keep_control)
        self.app.keeper.ask(request, thinking.splitter(prompt))

    def events_ready(self) -> None:
        from localspec.tui.app import LocalspecApp

        assert isinstance(self.app, LocalspecApp)
        for event in self.app.keeper.take():
            if isinstance(event, Part):
                self.shown += visible(event.text)
            elif isinstance(event, Finished):
                self.talk.answered(event.text)
        self.query_one("#transcript", Static).update(Content(self.shown))
