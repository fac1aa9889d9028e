"""One setting as a line to edit: its title, its value, where the value comes from, and what it means."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Select, Static, TextArea

from localspec.chat.looks import LOOKS
from localspec.chat.settings import Setting, Value
from localspec.chat.visible import one_line
from localspec.tui import looks, themes

SYSTEM_LINES = 3


class SettingRow(Vertical):
    """Posts `Edited` with a value that the setting accepts; what it refuses is said below, and nothing is posted."""

    DEFAULT_CSS = """
    SettingRow {
        height: auto; padding: 0 1;
        .setting-line { height: auto; }
        .setting-title { width: 20; }
        .setting-value { width: 22; background: $surface; }
        .setting-source { width: 1fr; margin-left: 2; color: $text-muted; }
        .setting-text { width: 1fr; height: 3; }
        .setting-help { color: $text-muted; padding-left: 2; }
        #theme-preview { padding-left: 2; }
        .setting-fault { color: $text-error; display: none; padding-left: 2; }
        &.-faulty .setting-fault { display: block; }
        &.-set .setting-title { text-style: bold; }
        Select { height: 1; }
        &:focus-within .setting-title { color: $primary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "reset", "Take back", id="settings.reset", tooltip="Take back what is set here")
    ]

    class Edited(Message):
        """A person gave `setting` a value."""

        def __init__(self, setting: Setting, value: Value) -> None:
            super().__init__()
            self.setting = setting
            self.value = value

    class Reset(Message):
        """A person took back what was set here."""

        def __init__(self, setting: Setting) -> None:
            super().__init__()
            self.setting = setting

    def __init__(self, setting: Setting) -> None:
        super().__init__(id=f"row-{setting.name}")
        self.setting = setting
        self._value: Value = setting.default

    def compose(self) -> ComposeResult:
        with Horizontal(classes="setting-line"):
            yield Static(self.setting.title, classes="setting-title", markup=False)
            yield self._editor()
            yield Static("", classes="setting-source", markup=False)
        yield Static(self.setting.line, classes="setting-help", markup=False)
        if self.setting.name == "theme":
            yield Static(looks.legend(LOOKS), id="theme-preview", markup=False)
        yield Static("", classes="setting-fault", markup=False)

    def _editor(self) -> "Input | Select[str] | TextArea":
        options = self._options()
        if options:
            return Select(
                [(option, option) for option in options], allow_blank=False, compact=True, classes="setting-value"
            )
        if self.setting.name == "system":
            return TextArea(classes="setting-value setting-text", compact=True, tab_behavior="focus")
        return Input(compact=True, classes="setting-value", select_on_focus=False)

    def _options(self) -> list[str]:
        setting = self.setting
        if setting.name == "theme":
            return list(themes.all_themes())
        if setting.kind == "flag":
            return ["on", "off"]
        return [*([setting.word] if setting.auto and setting.choices else []), *setting.choices]

    def show(self, value: Value, source: str, *, here: bool) -> None:
        """Show `value` and where it comes from; `here`: it was set in the place that is being edited."""
        self._value = value
        text = self.setting.write(value)
        with self.prevent(Select.Changed, Input.Changed, TextArea.Changed):
            editor = self.query_one(".setting-value")
            if isinstance(editor, Select):
                editor.value = text if text in self._options() else self._options()[0]
            elif isinstance(editor, TextArea):
                editor.text = text
            elif isinstance(editor, Input):
                editor.value = one_line(text)
        words = f"{source}: {self.setting.auto}" if value is None and self.setting.auto else source
        self.query_one(".setting-source", Static).update(Content(words))
        self.set_class(here, "-set")
        self._fault("")

    def _fault(self, text: str) -> None:
        self.set_class(bool(text), "-faulty")
        self.query_one(".setting-fault", Static).update(Content(one_line(text)))

    def _take(self, text: str) -> None:
        """What was typed or chosen."""
        try:
            value = self.setting.parse(text)
        except ValueError as error:
            self._fault(str(error))
            return
        self._fault("")
        if value != self._value or type(value) is not type(self._value):
            self._value = value
            self.post_message(self.Edited(self.setting, value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take(event.value)

    def on_input_blurred(self, event: Input.Blurred) -> None:
        event.stop()
        self._take(event.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Says while it is typed what is wrong with it; nothing is kept yet."""
        event.stop()
        try:
            self.setting.parse(event.value)
        except ValueError as error:
            self._fault(str(error))
        else:
            self._fault("")

    def on_select_changed(self, event: "Select.Changed") -> None:
        event.stop()
        self._take(str(event.value))

    def on_descendant_blur(self) -> None:
        editor = self.query_one(".setting-value")
        if isinstance(editor, TextArea):
            self._take(editor.text)

    def action_reset(self) -> None:
        self.post_message(self.Reset(self.setting))
