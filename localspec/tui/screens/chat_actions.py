"""What the chat's keys do."""

from typing import TYPE_CHECKING

from localspec.chat.turns import Turn
from localspec.tui import clipboard, editor
from localspec.tui.widgets.findbar import FindBar
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.sidepanel import SidePanel
from localspec.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from textual.screen import Screen

    from localspec.tui.app import LocalspecApp
    from localspec.tui.desk import ChatDesk

    Base = Screen[None]
else:
    Base = object

AGAIN_S = 3.0
"""How long a second Ctrl+C still means the first one."""

MOUSE_OFF = "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l"
MOUSE_ON = "\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h"


class ChatActions(Base):
    """The actions of the chat screen."""

    desk: "ChatDesk"
    _panel: "bool | None"
    _code_at: "tuple[int, int]" = (0, 0)
    _quitting = False
    _mouse = True

    if TYPE_CHECKING:

        @property
        def home(self) -> "LocalspecApp": ...

        def say(self, text: str, kind: str = "plain") -> None: ...

        def _show_panel(self) -> None: ...

    # -- stopping ----------------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Ends the answer; without one, leaves whatever the person is in."""
        if self.desk.stop():
            return
        transcript = self.query_one(Transcript)
        if transcript.has_focus:
            transcript.leave()
        self.query_one(Prompt).focus()

    def action_interrupt(self) -> None:
        """Ctrl+C: copies what is selected; else stops the answer; a second one quits."""
        prompt = self.query_one(Prompt)
        selected = prompt.selected_text if prompt.has_focus else self.get_selected_text()
        if selected:
            self._copy(selected, "The selection")
            self.clear_selection()
            return
        if self._quitting:
            self.home.exit()
            return
        stopped = self.desk.stop()
        self._quitting = True
        self.set_timer(AGAIN_S, self._forget_interrupt)
        self.say("Stopped. Ctrl+C again quits." if stopped else "Ctrl+C again quits.")

    def _forget_interrupt(self) -> None:
        self._quitting = False

    def action_restart(self) -> None:
        """Loads the model again, after a crash or at any time."""
        self.desk.restart()

    # -- asking ------------------------------------------------------------------------------------------------------

    def action_new_chat(self) -> None:
        self.desk.new()

    def action_regenerate(self) -> None:
        self.desk.regenerate()

    def action_go_on(self) -> None:
        self.desk.go_on()

    def action_edit(self) -> None:
        """An earlier question back in the prompt; sent, it takes the place of the old one."""
        self.desk.edit(self._turn("user"))

    def action_editor(self) -> None:
        """The prompt in the person's own editor."""
        prompt = self.query_one(Prompt)
        try:
            prompt.fill(editor.edit(self.home, prompt.exact))
        except editor.CannotEdit as error:
            self.say(str(error), "error")
        self.refresh(layout=True)

    def _turn(self, role: str) -> Turn | None:
        """The turn the cursor is on, or the last one, when it has that role; else the nearest one above."""
        transcript = self.query_one(Transcript)
        turns = self.desk.talk.turns
        current = transcript.current
        at = turns.index(current.turn) if current is not None and current.turn in turns else len(turns) - 1
        return next((turn for turn in reversed(turns[: at + 1]) if turn.role == role), None)

    # -- looking -----------------------------------------------------------------------------------------------------

    def action_panel(self) -> None:
        self._panel = not self.query_one(SidePanel).display
        self._show_panel()

    def action_find(self) -> None:
        self.query_one(FindBar).open()

    def action_markdown(self) -> None:
        self.query_one(Transcript).action_markdown()

    def action_mouse(self) -> None:
        """Gives the mouse back to the terminal, for its own selecting, or takes it again."""
        self._mouse = not self._mouse
        driver = self.app._driver
        if driver is not None:
            driver.write(MOUSE_ON if self._mouse else MOUSE_OFF)
            driver.flush()
        self.say("" if self._mouse else "The mouse is the terminal's now, to select with. F7 takes it back.")

    # -- copying -----------------------------------------------------------------------------------------------------

    def action_copy_answer(self) -> None:
        """The answer under the cursor, or the last one, exactly as the model wrote it."""
        turn = self._chosen()
        if turn is None:
            self.say("There is nothing to copy yet.")
            return
        self._copy(turn.text, "The answer" if turn.role == "assistant" else "The question")

    def action_copy_code(self) -> None:
        """The next code block of the answer."""
        turn = self._turn("assistant")
        blocks = clipboard.code_blocks(turn.text) if turn is not None else []
        if turn is None or not blocks:
            self.say("This answer has no code block.")
            return
        last, at = self._code_at
        at = at % len(blocks) if last == id(turn) else 0
        self._code_at = (id(turn), at + 1)
        self._copy(blocks[at], f"Code block {at + 1} of {len(blocks)}")

    def action_copy_chat(self) -> None:
        """The whole chat as Markdown."""
        turns = self.desk.talk.turns
        if turns:
            roles = {"user": "You", "assistant": "Answer"}
            self._copy(clipboard.as_markdown([(roles[turn.role], turn.text) for turn in turns]), "The chat")

    def _chosen(self) -> Turn | None:
        current = self.query_one(Transcript).current
        return current.turn if current is not None else None

    def _copy(self, text: str, what: str) -> None:
        try:
            self.say(clipboard.copy(self.home, text, what))
        except OSError as error:
            self.say(f"{what} could not be copied into a file: {error.strerror or error}", "error")
