"""The prompt box: several lines, nothing sent but by its key, every pasted byte kept."""

from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from localspec.tui.pastes import Pastes, as_sent
from localspec.tui.recall import Recall
from localspec.tui.widgets.completions import Completions, begun


class Prompt(TextArea):
    """`Prompt.Sent` carries the exact text; the box is emptied by whoever takes it."""

    DEFAULT_CSS = """
    Prompt {
        height: auto; min-height: 3; max-height: 10; border: round $border-blurred; padding: 0 1;
        background: $background;
    }
    Prompt:focus { border: round $border; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="prompt.send", priority=True),
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "New line", id="prompt.newline", show=False, priority=True),
        Binding("up", "recall(-1)", "Earlier question", id="prompt.back", show=False, priority=True),
        Binding("down", "recall(1)", "Later question", id="prompt.forth", show=False, priority=True),
        Binding("tab", "complete", "Complete the path", id="prompt.complete", show=False, priority=True),
        Binding("ctrl+o", "editor", "Write in $EDITOR", id="prompt.editor", show=False, priority=True),
    ]

    class Sent(Message):
        """The person wants this answered. `text` is exact."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class EditorWanted(Message):
        """The person wants to write in their editor."""

    def __init__(self, completions: Completions, recall: Recall, **arguments: Any) -> None:
        super().__init__("", soft_wrap=True, show_line_numbers=False, tab_behavior="focus", compact=False, **arguments)
        self.pastes = Pastes()
        self._completions = completions
        self._recall = recall

    @property
    def exact(self) -> str:
        """What the box means, byte for byte."""
        return self.pastes.restored(self.text)

    def fill(self, text: str) -> None:
        """Puts a text into the box, whatever it contains, with the cursor at its end."""
        self.pastes.clear()
        self.load_text(self.pastes.shown(text, "text"))
        self.move_cursor(self.document.end)

    def put(self, text: str) -> None:
        """Puts a text in at the cursor, as a paste would."""
        if result := self._replace_via_keyboard(self.pastes.shown(text, "text"), *self.selection):
            self.move_cursor(result.end_location)
        self.focus()

    def taken(self) -> None:
        """The text was sent: the box is empty, and the arrow keys find it again."""
        self._recall.add(self.exact)
        self.pastes.clear()
        self.clear()

    # -- keys --------------------------------------------------------------------------------------------------------
    # The app runs an action as soon as its key comes, while the letters typed before it still wait for this widget: so
    # whatever looks at the text waits behind them.

    def action_send(self) -> None:
        self.call_later(self._send)

    def action_newline(self) -> None:
        self.call_later(self._newline)

    def action_recall(self, step: int) -> None:
        self.call_later(self._step, step)

    def action_editor(self) -> None:
        self.call_later(self.post_message, self.EditorWanted())

    def action_complete(self) -> None:
        if self._completions.first is None:
            raise SkipAction()
        self.call_later(self._complete)

    def _send(self) -> None:
        if self._completions.chosen is not None:
            self._complete()
        else:
            self.post_message(self.Sent(self.exact))

    def _newline(self) -> None:
        start, end = self.selection
        self._replace_via_keyboard("\n", start, end)

    def _step(self, step: int) -> None:
        if self._completions.is_open:
            self._completions.step(step)
            return
        row, _ = self.cursor_location
        move = self.action_cursor_up if step < 0 else self.action_cursor_down
        if row != (0 if step < 0 else self.document.line_count - 1):
            move()
            return
        text = self._recall.back(self.exact) if step < 0 else self._recall.forth()
        if text is not None:
            self.fill(text)
        else:
            move()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if result := self._replace_via_keyboard(self.pastes.shown(as_sent(event.text)), *self.selection):
            self.move_cursor(result.end_location)
            self.focus()

    # -- completing commands and paths -------------------------------------------------------------------------------

    def on_text_area_changed(self) -> None:
        row, column = self.cursor_location
        self._completions.look(self.document.get_line(row)[:column], Path.cwd(), first=row == 0)

    def _complete(self) -> None:
        row, column = self.cursor_location
        typed = begun(self.document.get_line(row)[:column], first=row == 0)
        chosen = self._completions.chosen or self._completions.first
        if typed is None or chosen is None:
            return
        self._replace_via_keyboard(chosen, (row, column - len(typed)), (row, column))

    def on_blur(self) -> None:
        self._completions.close()
