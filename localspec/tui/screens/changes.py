"""The changes that an edit proposes: each is accepted or left, then the file is written; the last one can be undone."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from localspec.tui.editing import told
from localspec.tui.proposal import Proposal
from localspec.tui.screens.base import AppScreen, hand_over
from localspec.tui.widgets.diffview import DiffView


class ChangesScreen(AppScreen):
    """Writes nothing until it is told to."""

    heading = "Changes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "choose(True)", "All", id="changes.all", tooltip="Accept every change"),
        Binding("n", "choose(False)", "None", id="changes.none", tooltip="Accept no change"),
        Binding("w", "write", "Write", id="changes.write", tooltip="Write the accepted changes into the file"),
        Binding("u", "undo", "Undo", id="changes.undo", tooltip="Bring the file's old content back"),
    ]
    CSS = """
    ChangesScreen {
        #changes-state { height: auto; max-height: 4; padding: 0 2; background: $surface; }
        .done { color: $text-success; }
    }
    """

    def __init__(self, proposal: Proposal) -> None:
        super().__init__()
        self._proposal = proposal
        self._busy = False

    def body(self) -> ComposeResult:
        yield DiffView(self._proposal, id="changes")
        yield Static("", id="changes-state", markup=False)

    def on_mount(self) -> None:
        self.query_one(DiffView).focus()
        self._show()

    def on_diff_view_toggled(self) -> None:
        self._show()

    def action_choose(self, everything: bool) -> None:
        self._proposal.choose(everything=everything)
        self.query_one(DiffView).refresh()
        self._show()

    def action_back(self) -> None:
        # What is being written would not be told of any more.
        if not self._busy:
            super().action_back()

    def action_write(self) -> None:
        """The accepted changes into the file."""
        if self._proposal.written is not None:
            self._say("The changes are written already: u undoes them first.", "fault")
        elif not self._proposal.chosen:
            self._say("No change is accepted: Space accepts one, a all of them.", "fault")
        else:
            self._do(self._proposal.write)

    def action_undo(self) -> None:
        """The file as it was."""
        self._do(self._proposal.undo)

    def _do(self, work: Callable[[], None]) -> None:
        """Work on the disk, in a thread: a slow disk never holds the keys."""
        if self._busy:
            return
        self._busy = True

        def run() -> None:
            try:
                work()
            except Exception as error:
                hand_over(self, self._done, told(error))
            else:
                hand_over(self, self._done, "")

        self.run_worker(run, thread=True)

    def _done(self, fault: str) -> None:
        self._busy = False
        self._show()
        if fault:
            self._say(fault, "fault")

    def _show(self) -> None:
        """How many changes are accepted, and what comes next."""
        proposal, count = self._proposal, len(self._proposal.hunks)
        self.aside(f"{proposal.file.name}  {len(proposal.chosen)} of {count} accepted")
        if proposal.written is not None:
            changes = f"{proposal.written} change" + ("s" if proposal.written != 1 else "")
            self._say(f"{changes} written into {proposal.file.name}. u undoes that, Esc goes back to the chat.", "done")
        elif (problem := proposal.problem) is not None:
            what = f"With what is accepted {proposal.file.name} would be no Python any more ({problem})."
            self._say(f"{what} w writes it all the same, Space changes what is accepted.", "fault")
        else:
            self._say("w writes what is accepted, Space changes that. Esc leaves the file as it is.")

    def _say(self, words: str, kind: str = "muted") -> None:
        line = self.query_one("#changes-state", Static)
        line.set_classes(kind)
        line.update(words)
