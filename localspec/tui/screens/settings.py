"""Settings: each with a line that explains it, for all pairs or for one, and named presets.

What is changed is written at once; what the model has to be loaded for holds when the screen is left.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Select, Static

from localspec.chat import config
from localspec.chat.config import ALL, Config, ConfigError, Scope
from localspec.chat.settings import SETTINGS, Settings, Value
from localspec.chat.visible import one_line
from localspec.tui import messages
from localspec.tui.screens.base import AppScreen
from localspec.tui.screens.dialogs import ConfirmScreen, LineScreen
from localspec.tui.widgets.settingrow import SettingRow

IN_PRESETS = ("Sampling", "Speculation", "Answer")
"""The groups a preset keeps: what belongs to a way of answering, not to this machine."""

EVERYWHERE = "all pairs"


class SettingsScreen(AppScreen):
    """Edits the config file; comments in it stay."""

    heading = "Settings"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+s",
            "save_preset",
            "Save as preset",
            id="settings.save_preset",
            tooltip="Save how answers are made now as a preset",
        ),
    ]
    CSS = """
    SettingsScreen {
        #settings-bar { height: 1; padding: 0 1; margin-top: 1; }
        #settings-bar Static { width: auto; margin-right: 1; color: $text-muted; }
        #settings-bar #scope { width: 24; height: 1; margin-right: 2; }
        #settings-bar #presets { width: 17; height: 1; margin-right: 1; }
        #settings-bar Button { margin-right: 1; width: auto; min-width: 5; }
        #settings-problems { height: auto; max-height: 4; padding: 0 1; margin-top: 1; color: $text-warning; }
        #settings-rows { height: 1fr; }
        .settings-group { text-style: bold; color: $primary; padding: 0 1; margin-top: 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._config = Config()
        self._scope = ALL
        self._preset: str | None = None
        self._before: Settings | None = None

    def body(self) -> ComposeResult:
        with Horizontal(id="settings-bar"):
            yield Static("For", markup=False)
            yield Select([(EVERYWHERE, EVERYWHERE)], allow_blank=False, compact=True, id="scope")
            yield Static("Preset", markup=False)
            yield Select([], prompt="none", compact=True, id="presets")
            yield Button("Use", id="use", compact=True)
            yield Button("Save as", id="save", compact=True)
            yield Button("Delete", id="delete", compact=True)
        yield VerticalScroll(Static("", id="settings-problem-lines", markup=False), id="settings-problems")
        with VerticalScroll(id="settings-rows"):
            group = ""
            for setting in SETTINGS:
                if setting.group != group:
                    group = setting.group
                    yield Static(group, classes="settings-group", markup=False)
                yield SettingRow(setting)

    def on_mount(self) -> None:
        self._before = self.home.settings
        self._read()
        choice = self.home.engine.choice
        names = list(dict.fromkeys((*([choice.name] if choice and choice.name else []), *self._config.pairs)))
        with self.prevent(Select.Changed):
            self.query_one("#scope", Select).set_options(
                [(EVERYWHERE, EVERYWHERE), *((f"{one_line(name)} alone", name) for name in names)]
            )
        self.query_one(SettingRow).query_one(".setting-value").focus()

    def _read(self) -> None:
        """Read the file, and show what it says."""
        self._config = self.home.config = config.load()
        problems = [one_line(str(problem)) for problem in self._config.problems]
        self.query_one("#settings-problems").display = bool(problems)
        self.query_one("#settings-problem-lines", Static).update("\n".join(problems))
        with self.prevent(Select.Changed):
            presets = self.query_one("#presets", Select)
            presets.set_options((one_line(name), name) for name in self._config.presets)
            if self._preset in self._config.presets:
                presets.value = self._preset
        held = self._config.settings(self._scope.name if self._scope.kind == "pair" else None)
        here = self._config.of(self._scope)
        for row in self.query(SettingRow):
            name = row.setting.name
            row.display = self._scope is ALL or row.setting.per_pair
            if name in here:
                source = "set here"
            elif name in self._config.values:
                source = "set for all pairs"
            else:
                source = "default"
            row.show(getattr(held, name), source, here=name in here)
        for button in ("use", "delete"):
            self.query_one(f"#{button}", Button).display = self._preset in self._config.presets

    def _write(self, values: dict[str, Value], *, drop: tuple[str, ...] = ()) -> None:
        try:
            config.save(values, self._scope, drop=drop)
        except ConfigError as error:
            self.notify(one_line(str(error)), title="Not saved", severity="error", markup=False)
            return
        self._read()
        self._apply_at_once()
        again = self._before is not None and self._now().needs_loading(self._before)
        self.aside("saved; the model loads again when you leave" if again else "saved")

    def _now(self) -> Settings:
        choice = self.home.engine.choice
        return self._config.settings(choice.name if choice is not None else None)

    def _apply_at_once(self) -> None:
        theme = self._config.settings().theme
        if theme in self.app.available_themes:
            self.app.theme = theme

    def on_setting_row_edited(self, event: SettingRow.Edited) -> None:
        self._write({event.setting.name: event.value})

    def on_setting_row_reset(self, event: SettingRow.Reset) -> None:
        self._write({}, drop=(event.setting.name,))

    def on_select_changed(self, event: "Select.Changed") -> None:
        if event.select.id == "scope":
            self._scope = ALL if event.value == EVERYWHERE else Scope("pair", str(event.value))
        elif event.select.id == "presets":
            self._preset = None if event.select.is_blank() else str(event.value)
        self._read()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "use":
                self._use_preset()
            case "save":
                self.action_save_preset()
            case "delete":
                self._delete_preset()

    def _use_preset(self) -> None:
        if self._preset is not None:
            self._write(dict(self._config.of(Scope("preset", self._preset))))

    def action_save_preset(self) -> None:
        """Ask for a name, and keep how answers are made now under it."""

        def named(name: str | None) -> None:
            if name is None:
                return
            held = self._config.settings(self._scope.name if self._scope.kind == "pair" else None)
            values: dict[str, Value] = {
                one.name: getattr(held, one.name) for one in SETTINGS if one.group in IN_PRESETS and one.per_pair
            }
            try:
                config.save(values, Scope("preset", name))
            except ConfigError as error:
                self.notify(one_line(str(error)), title="Not saved", severity="error", markup=False)
                return
            self._preset = name
            self._read()
            self.aside("preset saved")

        self.app.push_screen(LineScreen("Save how answers are made now, as a preset called", self._preset or ""), named)

    def _delete_preset(self) -> None:
        name = self._preset
        if name is None:
            return

        def answered(yes: bool | None) -> None:
            if not yes:
                return
            try:
                config.delete(Scope("preset", name))
            except ConfigError as error:
                self.notify(one_line(str(error)), title="Not deleted", severity="error", markup=False)
            self._preset = None
            self._read()

        question = ConfirmScreen("Delete this preset?", name, yes="Delete", no="Keep", danger=True)
        self.app.push_screen(question, answered)

    def on_unmount(self) -> None:
        now = self._now()
        if self._before is not None and now != self._before:
            self.home.post_message(messages.SettingsChanged(now))
