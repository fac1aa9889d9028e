"""The app: its screens, its engine, its settings and its history, all injectable."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from localspec.chat.settings import DEFAULT_THEME, Settings
from localspec.engine.requests import EngineConfig
from localspec.tui import messages, themes
from localspec.tui.engine import EngineKeeper, EngineLike, EngineState

if TYPE_CHECKING:
    from localspec.chat.pairing import Choice

Choose = Callable[[str | None, str | None, Settings], "Choice"]
"""From what was asked for (a spec or None, a draft or None) and the settings to what is loaded. Raises `ModelError`."""

SCREEN_NAMES = ("menu", "settings", "log", "help", "history")


def screen(name: str) -> "Screen[Any]":
    """A fresh screen by its name; its module is loaded when it is opened."""
    module = importlib.import_module(f"localspec.tui.screens.{name}")
    made: Screen[Any] = getattr(module, f"{name.title()}Screen")()
    return made


def _client(config: EngineConfig) -> EngineLike:
    from localspec.engine.client import EngineClient

    return EngineClient(config)


def choose_files(spec: str | None, draft: str | None, settings: Settings) -> "Choice":
    """What is on this disk for `spec`, under the settings."""
    from localspec import paths
    from localspec.chat import pairing

    cache = str(paths.cache_dir())
    return pairing.choose(
        spec or settings.pair,
        lambda target, draft: settings.engine_config(target, draft, cache),
        draft=draft,
        usual=settings.speculate,
        offline=True,
    )


class LocalspecApp(App[None]):
    """`client_factory` makes the engine's client, `choose` finds the files; tests put scripted ones in their place."""

    TITLE = "localspec"
    CSS_PATH = "app.tcss"
    SCREENS: ClassVar[dict[str, Callable[[], Screen[Any]]]] = {name: partial(screen, name) for name in SCREEN_NAMES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "open('help')", "Help", id="app.help"),
        Binding("f3", "open('menu')", "Models", id="app.models"),
        Binding("f4", "open('history')", "History", id="app.history"),
        Binding("f5", "open('settings')", "Settings", id="app.settings"),
        Binding("f6", "open('log')", "Log", id="app.log", show=False),
    ]

    def __init__(
        self,
        client_factory: Callable[[EngineConfig], EngineLike] = _client,
        settings: Settings | None = None,
        history: Any = None,
        *,
        choose: Choose = choose_files,
    ) -> None:
        super().__init__()
        for theme in themes.OWN:
            self.register_theme(theme)
        self.settings = settings or Settings()
        self.theme = self.settings.theme if self.settings.theme in self.available_themes else DEFAULT_THEME
        self.history = history
        self._choose = choose
        self.keeper = EngineKeeper(
            client_factory,
            lambda state: self.post_message(messages.EngineStateChanged(state)),
            lambda: self.post_message(messages.EventsReady()),
        )

    @property
    def engine(self) -> EngineState:
        """What the engine does now."""
        return self.keeper.state

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.variables(self.current_theme)

    def get_default_screen(self) -> Screen[Any]:
        from localspec.tui.screens.chat import ChatScreen

        return ChatScreen()

    @property
    def chat(self) -> Any:
        """The chat screen: always at the bottom of the stack."""
        return self.screen_stack[0]

    def on_mount(self) -> None:
        self.load_pair(None, None)

    def load_pair(self, spec: str | None, draft: str | None) -> None:
        settings = self.settings
        self.keeper.open(lambda: self._choose(spec, draft, settings))

    def action_open(self, name: str) -> None:
        """Shows a screen, fresh, over the chat; one that is open already stays."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.push_screen(screen(name))

    def on_pair_chosen(self, message: messages.PairChosen) -> None:
        self.load_pair(message.spec, message.draft)

    def on_settings_changed(self, message: messages.SettingsChanged) -> None:
        before, self.settings = self.settings, message.settings
        choice = self.engine.choice
        if choice is not None and message.settings.needs_loading(before):
            self.load_pair(choice.name, None)

    def on_engine_state_changed(self, message: messages.EngineStateChanged) -> None:
        self.chat.show_engine(message.state)

    def on_events_ready(self) -> None:
        self.chat.events_ready()

    def on_chat_opened(self, message: messages.ChatOpened) -> None:
        self.chat.open_chat(message.chat_id, message.message_id)

    def on_prompt_suggested(self, message: messages.PromptSuggested) -> None:
        self.chat.suggest(message.text, send=message.send)

    def on_unmount(self) -> None:
        self.keeper.close()


def run_app(settings: Settings | None = None) -> None:
    """The app on this terminal, until the person leaves it."""
    LocalspecApp(settings=settings).run()
