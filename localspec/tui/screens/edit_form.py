"""A form for `/edit`: which file, which lines, what to change."""

import re
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.suggester import Suggester
from textual.widgets import Button, Input, Label, Static

from localspec.chat.visible import visible
from localspec.tui.commands import USAGE, Edit
from localspec.tui.screens.base import AppDialog
from localspec.tui.widgets.completions import candidates


class Paths(Suggester):
    """The first path that goes on from what is typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        found = [path for path in candidates(value, Path.cwd()) if path.startswith(value)] if value else []
        return found[0] if found else None


class EditFormScreen(AppDialog[str | None]):
    """Answers with the command as it would be typed; None: the person gave up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Cancel", id="dialog.cancel")]
    DEFAULT_CSS = """
    EditFormScreen {
        .row { height: 1; margin-bottom: 1; }
        .row Label { width: 9; color: $text-muted; }
        .row Input { width: 1fr; }
    }
    """

    def __init__(self, command: Edit) -> None:
        super().__init__()
        self._command = command

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box"):
            yield Static("Change a file", classes="dialog-title", markup=False)
            with Horizontal(classes="row"):
                yield Label("File")
                file = Input(self._command.file, id="file", compact=True, suggester=Paths())
                file.placeholder = "src/shelf.py   (→ completes)"
                yield file
            with Horizontal(classes="row"):
                yield Label("Lines")
                yield Input(self._command.lines or "", id="lines", compact=True, placeholder="all, or 10-42")
            with Horizontal(classes="row"):
                yield Label("Change")
                yield Input(
                    self._command.instruction, id="instruction", compact=True, placeholder="add type hints everywhere"
                )
            yield Static(
                f"Typed in the prompt it is  {USAGE}\nNothing is written before you have seen the changes.",
                classes="muted",
                markup=False,
            )
            yield Static("", id="fault", classes="fault", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button("Ask for it", id="ask", variant="primary", compact=True)
                yield Button("Cancel", id="cancel", compact=True)

    def on_mount(self) -> None:
        self.query_one("#instruction" if self._command.file else "#file", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes through the fields; in the last one it asks."""
        if event.input.id == "instruction":
            self._ask()
        else:
            self.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "ask":
            self._ask()
        else:
            self.action_give_up()

    def _ask(self) -> None:
        file, lines, instruction = (
            self.query_one(f"#{name}", Input).value.strip() for name in ("file", "lines", "instruction")
        )
        fault = _fault(file, lines, instruction)
        if fault:
            self.query_one("#fault", Static).update(visible(fault))
            return
        self.dismiss(Edit(file.strip('"'), lines or None, instruction).written())

    def action_give_up(self) -> None:
        self.dismiss(None)


def _fault(file: str, lines: str, instruction: str) -> str:
    if not file:
        return "Say which file is to be changed."
    if not instruction:
        return "Say what is to be changed."
    if lines and not re.fullmatch(r"[0-9]+(-[0-9]*)?", lines):
        return "Lines are written 10-42, or 10 for one; leave them out for the whole file."
    try:
        found = Path(file.strip('"')).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):
        found = False
    return "" if found else f"There is no file {file} here."
