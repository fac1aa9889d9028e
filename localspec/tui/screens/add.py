"""Adding to the menu: model files of one's own, what other programs have on this disk, and hub repositories."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from localspec.chat.visible import one_line
from localspec.models.partial import human
from localspec.tui.screens.base import AppDialog, hand_over

if TYPE_CHECKING:
    from localspec.models.scan import Scan

HELP = "A GGUF file on this disk, or a hub repository: OWNER/REPO or OWNER/REPO:Q4_K_M."
FIELDS = (
    ("Target", "target", "the model whose words count"),
    ("Draft", "draft", "a small model of the same family, or nothing"),
    ("Name", "name", "what the menu calls it"),
)


class PathSuggester(Suggester):
    """Completes file names: folders, and files that end in .gguf."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        if not value.startswith(("/", "~", ".")):
            return None
        folder, _, start = value.rpartition("/")
        try:
            names = sorted(Path(folder or "/").expanduser().iterdir())
        except OSError:
            return None
        for path in names:
            if path.name.startswith(start) and path.name != start:
                if path.is_dir():
                    return f"{folder}/{path.name}/"
                if path.suffix == ".gguf":
                    return f"{folder}/{path.name}"
        return None


class AddScreen(AppDialog[str | None]):
    """Asks for a name, a target and perhaps a draft. Answers the new entry's name; hub files are fetched first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Cancel", id="dialog.cancel")]
    CSS = """
    AddScreen {
        .dialog-box { width: 90; }
        .field { height: 1; margin-top: 1; }
        .label { width: 8; color: $text-muted; }
        .field Input { width: 1fr; background: $surface; }
        #found { height: auto; max-height: 6; background: $surface; }
        #found-title { margin-top: 1; color: $text-muted; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._pairs: list[tuple[Path, Path | None]] = []
        self._named = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box"):
            yield Static("Add to the menu", classes="dialog-title", markup=False)
            yield Static(HELP, classes="muted", markup=False)
            for label, field, hint in FIELDS:
                with Horizontal(classes="field"):
                    yield Static(label, classes="label", markup=False)
                    suggester = None if field == "name" else PathSuggester()
                    yield Input(id=field, compact=True, placeholder=hint, suggester=suggester)
            yield Static("", id="fault", classes="fault", markup=False)
            yield Static("Looking at what other programs have here …", id="found-title", markup=False)
            yield OptionList(id="found", markup=False, compact=True)
            with Horizontal(classes="dialog-buttons"):
                yield Button("Add", id="add", variant="primary", compact=True)
                yield Button("Cancel", id="cancel", compact=True)

    def on_mount(self) -> None:
        self.query_one("#found").display = False
        self.query_one("#target", Input).focus()
        self._scan()

    def _text(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    # -- what is on this disk ----------------------------------------------------------------------------------------

    @work(thread=True, group="scan")
    def _scan(self) -> None:
        from localspec import paths
        from localspec.models import settings as model_settings
        from localspec.models.scan import scan

        found = scan(model_settings.load().folders, cache_dir=paths.cache_dir())
        pairs = [(pair.target.path, pair.draft.path) for pair in found.pairs]
        hand_over(self, self._show_found, found, pairs)

    def _show_found(self, found: "Scan", pairs: list[tuple[Path, Path]]) -> None:
        if not self.is_attached:
            return
        options: list[Option] = []
        names = {file.path: f"{file.name} ({file.program}, {human(file.size)})" for file in found.files}
        for target, draft in pairs:
            self._pairs.append((target, draft))
            options.append(Option(Content(one_line(f"{names[target]}  with draft  {names[draft]}"))))
        for file in found.files:
            self._pairs.append((file.path, None))
            options.append(Option(Content(one_line(names[file.path]))))
        title = "Found on this disk (Enter fills it in):" if options else "Nothing found in other programs' folders."
        self.query_one("#found-title", Static).update(title)
        listing = self.query_one("#found", OptionList)
        listing.display = bool(options)
        listing.add_options(options)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        target, draft = self._pairs[event.option_index]
        self.query_one("#target", Input).value = str(target)
        self.query_one("#draft", Input).value = str(draft) if draft else ""
        self.query_one("#name", Input).focus()

    # -- what is typed -----------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "name":
            self._named = event.value != _name_for(self._text("target")) and event.value != ""
        elif event.input.id == "target" and not self._named:
            self.query_one("#name", Input).value = _name_for(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._add()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "add":
            self._add()
        else:
            self.action_give_up()

    def action_give_up(self) -> None:
        self.dismiss(None)

    def _add(self) -> None:
        target, draft, name = self._text("target"), self._text("draft"), self._text("name")
        if not target:
            self._fault("name a target: a file on this disk, or OWNER/REPO")
            return
        self._fault("")
        self._check(target, draft, name or _name_for(target))

    def _fault(self, text: str) -> None:
        self.query_one("#fault", Static).update(one_line(text))

    @work(thread=True, exclusive=True, group="add")
    def _check(self, target: str, draft: str, name: str) -> None:
        from localspec.chat.errors import reason_of
        from localspec.models import adding

        try:
            missing = adding.add(name, target, draft or None)
        except Exception as error:
            hand_over(self, self._fault, reason_of(error))
            return
        hand_over(self, self._done, name, missing)

    def _done(self, name: str, missing: tuple[str, ...]) -> None:
        if missing:
            from localspec.models import adding

            target, draft = self._text("target"), self._text("draft") or None
            self.home.downloads.start(name, parts=missing, then=lambda: adding.add(name, target, draft))
        self.dismiss(name)


def _name_for(target: str) -> str:
    """A name for the menu out of a file's or repository's name."""
    last = target.rstrip("/").rpartition("/")[2].removesuffix(".gguf").replace(":", "-")
    last = re.sub(r"-?gguf$", "", last, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._").lower()
