"""Small questions over a screen: yes or no, and a line of text."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Static

from localspec.chat.visible import visible
from localspec.tui.screens.base import AppDialog


class ConfirmScreen(AppDialog[bool]):
    """A question with two answers; Esc is the second. Texts are shown as they are, never as markup."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "answer(False)", "No", id="dialog.cancel"),
        Binding("left,right,up,down", "app.focus_next", show=False),
    ]

    def __init__(self, title: str, text: str, *, yes: str = "Yes", no: str = "No", danger: bool = False) -> None:
        super().__init__()
        self._title, self._text, self._yes, self._no, self._danger = title, text, yes, no, danger

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box"):
            yield Static(visible(self._title), classes="dialog-title", markup=False)
            yield Static(visible(self._text), id="question", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button(self._yes, id="yes", variant="error" if self._danger else "primary", compact=True)
                yield Button(self._no, id="no", compact=True)

    def on_mount(self) -> None:
        # What destroys something is never a second Enter away.
        self.query_one("#no" if self._danger else "#yes", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class LineScreen(AppDialog[str | None]):
    """Asks for a line of text; `check` answers what is wrong with it, "" when nothing is. None: the person gave up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Cancel", id="dialog.cancel")]

    def __init__(self, title: str, text: str = "", *, check: Callable[[str], str] = lambda _: "") -> None:
        super().__init__()
        self._title, self._text, self._check = title, text, check

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box"):
            yield Static(visible(self._title), classes="dialog-title", markup=False)
            yield Input(self._text, id="line", compact=True)
            yield Static("", id="fault", classes="fault", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        fault = self._check(text)
        if fault:
            self.query_one("#fault", Static).update(visible(fault))
        elif text:
            self.dismiss(text)

    def action_give_up(self) -> None:
        self.dismiss(None)
