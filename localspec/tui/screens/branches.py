"""The ways through a chat: regenerated answers and edited questions, each with what came after."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localspec.chat.history_rows import Branch
from localspec.tui import history_words
from localspec.tui.screens.base import AppDialog


class BranchesScreen(AppDialog[int | None]):
    """Answers with the last message of the branch that was chosen; None: the person gave up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Cancel", id="dialog.cancel")]
    DEFAULT_CSS = """
    BranchesScreen OptionList { height: auto; max-height: 14; background: $panel; border: none; padding: 0; }
    """

    def __init__(self, branches: Sequence[Branch]) -> None:
        super().__init__()
        self._branches = branches

    def compose(self) -> ComposeResult:
        options = [Option(history_words.branch_line(branch)) for branch in self._branches]
        with Vertical(classes="dialog-box"):
            yield Static("Branches of this chat, by their last question", classes="dialog-title", markup=False)
            yield OptionList(*options, id="branches", markup=False, compact=True)

    def on_mount(self) -> None:
        shown = next((at for at, branch in enumerate(self._branches) if branch.shown), 0)
        self.query_one(OptionList).highlighted = shown

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._branches[event.option_index].leaf)

    def action_give_up(self) -> None:
        self.dismiss(None)
