"""What the screens beside the chat share: a title line, a footer with the keys, and Esc back to the chat."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Static

if TYPE_CHECKING:
    from localspec.tui.app import LocalspecApp


def stands(screen: Screen[Any]) -> bool:
    """The screen has all its parts. While the app or the screen leaves, they go one by one."""
    return screen.app.is_running and screen.is_mounted and screen in screen.app.screen_stack


def hand_over(screen: Screen[Any], call: Callable[..., object], *arguments: object) -> None:
    """From a worker thread: what was found, to `call` in the app's thread, unless the screen has gone meanwhile."""

    def arrive() -> None:
        if stands(screen):
            call(*arguments)

    screen.app.call_from_thread(arrive)


class AppScreen(Screen[None]):
    """A screen over the chat. `heading` is its name; subclasses compose their parts in `body`."""

    heading: ClassVar[str] = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (116, "-wide")]  # noqa: RUF012  # declared so by Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="screen.back", tooltip="Back to the chat")
    ]
    DEFAULT_CSS = """
    AppScreen {
        layout: vertical;
        .title-bar { height: 1; padding: 0 1; background: $panel; }
        .title-bar > .title-left { width: auto; text-style: bold; color: $primary; }
        .title-bar > .title-right { width: 1fr; text-align: right; color: $text-muted; }
        .fault { color: $text-error; }
        .muted { color: $text-muted; }
    }
    """

    def compose(self) -> ComposeResult:
        with Horizontal(classes="title-bar"):
            yield Static(f"localspec · {self.heading}", classes="title-left", markup=False)
            yield Static("", id="title-right", classes="title-right", markup=False)
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> ComposeResult:
        """The parts between the title and the keys: none, unless a screen has some."""
        return ()

    @property
    def home(self) -> "LocalspecApp":
        """The app, by its own type."""
        return cast("LocalspecApp", self.app)

    def aside(self, text: str) -> None:
        """Says something at the right of the title."""
        self.query_one("#title-right", Static).update(text)

    def action_back(self) -> None:
        self.dismiss()


Answer = TypeVar("Answer")


class AppDialog(ModalScreen[Answer]):
    """A box over a screen that asks something."""

    DEFAULT_CSS = """
    AppDialog {
        align: center middle;
        .dialog-box {
            width: 72; max-width: 94%; height: auto; max-height: 90%; padding: 1 2;
            background: $panel; border: round $border;
        }
        .dialog-title { text-style: bold; margin-bottom: 1; }
        .dialog-buttons { height: 1; margin-top: 1; align-horizontal: right; }
        .dialog-buttons Button { margin-left: 2; }
        .fault { color: $text-error; }
        .muted { color: $text-muted; }
    }
    """

    @property
    def home(self) -> "LocalspecApp":
        """The app, by its own type."""
        return cast("LocalspecApp", self.app)
