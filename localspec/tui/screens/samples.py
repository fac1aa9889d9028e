"""Three prompts to begin with, over the empty chat: Enter sends one, Esc leaves the person to their own words."""

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localspec.chat.visible import one_line
from localspec.tui import messages
from localspec.tui.engine import EngineState
from localspec.tui.screens.base import AppDialog

CODE = """\
```python
class Shelf:
    def __init__(self, name, days=21):
        self.name = name
        self.days = days
        self.books = {}

    def add(self, number, title):
        if number in self.books:
            raise ValueError(f"number {number} is taken by {self.books[number]}")
        self.books[number] = title

    def titles(self):
        return sorted(self.books.values())
```"""


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt, and what it shows."""

    title: str
    shows: str
    prompt: str


SAMPLES = (
    Sample(
        "Rename a class and add type hints",
        "most of the answer stands in the question: long guesses are right",
        f"Rename the class `Shelf` to `Bookcase`, add type hints everywhere, and answer with the whole code.\n\n{CODE}",
    ),
    Sample(
        "A table of the planets",
        "a regular shape that a small draft model guesses well",
        "Make a Markdown table of the planets: name, diameter in km, number of moons, length of a year.",
    ),
    Sample(
        "What is speculative decoding?",
        "free prose: the hardest to guess",
        "Explain speculative decoding to somebody who has never heard of it, in three short paragraphs.",
    ),
)


class SamplesScreen(AppDialog[None]):
    """Sends the chosen prompt as soon as the engine can answer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Write my own", id="samples.leave")]
    CSS = """
    SamplesScreen {
        #samples { height: auto; background: $panel; }
        #samples-state { margin-top: 1; color: $text-muted; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._chosen: Sample | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box"):
            yield Static("Something to begin with", classes="dialog-title", markup=False)
            yield OptionList(
                *(Option(Content.assemble((one.title, "bold"), "\n", (one.shows, "dim"))) for one in SAMPLES),
                id="samples",
                compact=True,
                markup=False,
            )
            yield Static("", id="samples-state", markup=False)

    def on_mount(self) -> None:
        self.query_one("#samples").focus()
        self.engine_changed(self.home.engine)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._chosen = SAMPLES[event.option_index]
        self.engine_changed(self.home.engine)

    def engine_changed(self, state: EngineState) -> None:
        """The app says what the engine does now."""
        if self._chosen is not None and state.can_answer:
            prompt, self._chosen = self._chosen.prompt, None
            self.home.post_message(messages.PromptSuggested(prompt, send=True))
            self.dismiss()
            return
        words = {
            "loading": f"The model is loading … {state.progress:.0%}",
            "broken": state.error,
            "none": "No model is chosen: F3 opens the menu.",
        }.get(state.phase, "Enter sends it. Esc: write your own.")
        if self._chosen is not None and state.phase == "loading":
            words += "; it is sent when that is done"
        # The engine may change before the screen has its parts.
        for line in self.query("#samples-state").results(Static):
            line.update(one_line(words))

    def action_leave(self) -> None:
        self.dismiss()
