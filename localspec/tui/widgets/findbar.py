"""Finding in the chat: a line to type in, and how many places there are."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static


class FindBar(Horizontal):
    """Hidden while nothing is sought."""

    DEFAULT_CSS = """
    FindBar { height: 1; padding: 0 1; background: $panel; display: none; }
    FindBar.-open { display: block; }
    FindBar Input { width: 1fr; background: $panel; }
    FindBar Static { width: auto; color: $text-muted; padding: 0 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,down", "step(1)", "Next", id="find.next", priority=True),
        Binding("up", "step(-1)", "Before", id="find.before", priority=True),
        Binding("escape", "close", "Close", id="find.close", priority=True),
    ]

    class Sought(Message):
        """Look for this."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Stepped(Message):
        """To the next place (1) of the text, or the one before (-1)."""

        def __init__(self, step: int, text: str) -> None:
            super().__init__()
            self.step = step
            self.text = text

    class Closed(Message):
        """The person has found it, or given up."""

    def compose(self) -> ComposeResult:
        yield Static("find", markup=False)
        yield Input(id="find", compact=True)
        yield Static("", id="found", markup=False)

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def open(self) -> None:
        self.add_class("-open")
        box = self.query_one(Input)
        box.focus()
        box.select_all()
        self.post_message(self.Sought(box.value))

    def say(self, words: str) -> None:
        self.query_one("#found", Static).update(words)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Sought(event.value))

    def action_step(self, step: int) -> None:
        # The letters typed before the key may still wait for the box.
        box = self.query_one(Input)
        box.call_later(lambda: self.post_message(self.Stepped(step, box.value)))

    def action_close(self) -> None:
        self.remove_class("-open")
        self.post_message(self.Closed())
