"""What the chat's keys do for code-assist, and how its steps are shown."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.tui import picking
from localspec.tui.commands import Edit, parse
from localspec.tui.picking import Picked
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from textual.screen import Screen

    from localspec.chat.turns import Turn
    from localspec.tui.app import LocalspecApp
    from localspec.tui.desk import ChatDesk
    from localspec.tui.proposal import Proposal

    Base = Screen[None]
else:
    Base = object


class EditActions(Base):
    """The part of the chat screen that has to do with files being changed."""

    desk: "ChatDesk"
    _used_at: "tuple[int, int]" = (0, 0)

    if TYPE_CHECKING:

        @property
        def home(self) -> "LocalspecApp": ...

        def say(self, text: str, kind: str = "plain") -> None: ...

        def _turn(self, role: str) -> Turn | None: ...

    # -- what the desk wants shown -----------------------------------------------------------------------------------

    @property
    def typed(self) -> str:
        """What the prompt means, byte for byte."""
        return self.query_one(Prompt).exact

    def command_done(self) -> None:
        """A command in the prompt was done: the box is empty, the arrow keys find it again."""
        prompt = self.query_one(Prompt)
        if parse(prompt.exact) is not None:
            prompt.taken()

    def ask_for_edit(self, command: Edit) -> None:
        """The form for an edit, filled as far as the command goes."""
        from localspec.tui.screens.edit_form import EditFormScreen

        def filled(text: str | None) -> None:
            if text is not None:
                prompt = self.query_one(Prompt)
                prompt.fill(text)
                self.desk.send(text)

        self.app.push_screen(EditFormScreen(command), filled)

    def show_changes(self, proposal: "Proposal") -> None:
        """The changes of an edit, unless the person is somewhere else meanwhile."""
        from localspec.tui.screens.changes import ChangesScreen

        count = len(proposal.hunks)
        changes = f"{count} change" + ("s" if count != 1 else "")

        def closed(_: None) -> None:
            if proposal.written is None:
                self.say(f"{proposal.file.name} is as it was. /diff shows the {changes} again.")
            else:
                self.say(f"{proposal.written} of {changes} written into {proposal.file.name}. /undo takes that back.")

        if self.app.screen is not self:
            self.say(f"{proposal.file.name}: {changes} proposed. /diff shows them.", "warning")
            return
        self.say("")
        self.app.push_screen(ChangesScreen(proposal), closed)

    def ask_for_force(self, words: str, yes: Callable[[], None]) -> None:
        """Whether to bring old content back over what somebody wrote since."""
        from localspec.tui.screens.dialogs import ConfirmScreen

        def answered(sure: bool | None) -> None:
            if sure:
                yes()

        question = f"{words}. Undoing the edit takes that back too."
        self.app.push_screen(
            ConfirmScreen("Undo all the same?", question, yes="Undo", no="Keep", danger=True), answered
        )

    # -- keys --------------------------------------------------------------------------------------------------------

    def action_edit_file(self) -> None:
        """Asks for a file and what to change in it."""
        begun = parse(self.typed)
        self.ask_for_edit(begun if isinstance(begun, Edit) else Edit())

    def action_changes(self) -> None:
        self.desk.assist.show()

    def action_undo_edit(self) -> None:
        self.desk.assist.undo("")

    def action_use_code(self) -> None:
        """What is selected, the code block under the cursor, or the next one, into the prompt."""
        picked = self._picked()
        if picked is None:
            return
        prompt = self.query_one(Prompt)
        _, column = prompt.cursor_location
        prompt.put(("\n" if column else "") + picked.quoted())

    def action_edit_code(self) -> None:
        """The same, as lines of the file that it was copied from, to be changed there."""
        picked = self._picked()
        if picked is None:
            return
        place = picking.place_of(picked, self.desk.talk.turns)
        if place is None:
            self.say(
                "This was not copied from a file: attach one with @path, or type /edit FILE INSTRUCTION.", "warning"
            )
            return
        lines = f"{place.first}-{place.last}" if place.last > place.first else str(place.first)
        prompt = self.query_one(Prompt)
        prompt.fill(Edit(_short(place.file), lines).written() + " ")
        prompt.focus()

    def _picked(self) -> Picked | None:
        """What is meant; says so when there is nothing."""
        text = self.get_selected_text()
        if text:
            self.clear_selection()
            return picking.selected(self.desk.talk.turns, text)
        pointed = self.query_one(Transcript).pointed
        if pointed is not None and (block := picking.block_at(*pointed)) is not None:
            return block
        turn = self._turn("assistant")
        blocks = picking.blocks(turn) if turn is not None else []
        if turn is None or not blocks:
            self.say("This answer has no code block, and nothing is selected.")
            return None
        last, at = self._used_at
        at = at % len(blocks) if last == id(turn) else 0
        self._used_at = (id(turn), at + 1)
        return blocks[at]


def _short(file: str) -> str:
    """A file's name as a person would type it here."""
    try:
        inside = Path(file).is_relative_to(Path.cwd())
        return os.path.relpath(file) if inside else file
    except (OSError, ValueError):
        return file
