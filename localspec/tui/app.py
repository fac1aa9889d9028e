"""The app: its screens, its engine, its settings and its history, all injectable."""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.screen import Screen
from textual.theme import Theme

from localspec.chat import config as config_file
from localspec.chat.config import Config
from localspec.chat.kv import KvStore
from localspec.chat.settings import DEFAULT_THEME, Settings, Value
from localspec.engine.requests import EngineConfig
from localspec.tui import messages, themes
from localspec.tui.caches import ChatCaches
from localspec.tui.downloads import Downloads
from localspec.tui.engine import EngineKeeper, EngineLike, EngineState
from localspec.tui.fetching import Fetching
from localspec.tui.journal import Journal

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


def actions() -> type[Provider]:
    """The palette's own commands, loaded when it is opened."""
    from localspec.tui.palette import Actions

    return Actions


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


def _starter() -> str | None:
    """The menu's starter; read in a thread, because reading the menu takes as long as a first paint."""
    from localspec.models import catalog

    pair = catalog.load().starter()
    return pair.key if pair else None


def _remember(values: dict[str, Value]) -> None:
    with contextlib.suppress(config_file.ConfigError):
        config_file.save(values)


class LocalspecApp(App[None]):
    """`client_factory` makes the engine's client, `choose` finds the files; tests put scripted ones in their place.
    `share`: commands in other terminals may use the engine, if the settings say so too."""

    TITLE = "localspec"
    CSS_PATH = "app.tcss"
    SCREENS: ClassVar[dict[str, Callable[[], Screen[Any]]]] = {name: partial(screen, name) for name in SCREEN_NAMES}
    COMMANDS = App.COMMANDS | {actions}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "open('help')", "Help", id="app.help"),
        Binding("f3", "open('menu')", "Models", id="app.models"),
        Binding("f4", "open('history')", "History", id="app.history"),
        Binding("f5", "open('settings')", "Settings", id="app.settings"),
        # A text area keeps F6 for itself, unless the app comes first.
        Binding("f6", "open('log')", "Log", id="app.log", show=False, priority=True),
    ]

    def __init__(
        self,
        client_factory: Callable[[EngineConfig], EngineLike] = _client,
        settings: Settings | None = None,
        history: Any = None,
        *,
        choose: Choose = choose_files,
        config: Config | None = None,
        pull: Callable[..., Any] | None = None,
        share: bool = False,
    ) -> None:
        super().__init__()
        for theme in themes.OWN:
            self.register_theme(theme)
        self.config = config
        self.settings = settings or (config or Config()).settings()
        self.theme = self.settings.theme if self.settings.theme in self.available_themes else DEFAULT_THEME
        self.history = history
        self.journal = Journal()
        self.fetching = Fetching(self, pull)
        self._choose = choose
        self._welcomed = False
        self._noted = ""
        self.keeper = EngineKeeper(
            client_factory,
            lambda state: self.post_message(messages.EngineStateChanged(state)),
            lambda: self.post_message(messages.EventsReady()),
            (lambda: self.settings) if share else None,
            self.journal.add,
        )
        self.caches = ChatCaches(self.keeper, self._cache_store)

    @property
    def downloads(self) -> Downloads:
        """The model files being fetched, and those that were."""
        return self.fetching.downloads

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
        self.theme_changed_signal.subscribe(self, self._theme_chosen)
        if self.config is not None and self.config.keys:
            self.run_worker(self._read_keys, thread=True)
        for problem in self.config.problems if self.config else ():
            self.journal.add(str(problem))

    def _read_keys(self) -> None:
        """The person's own keys; in a thread, because all screens are imported to know their actions."""
        from localspec.tui.keys import keymap

        good, faults = keymap(self.config.keys if self.config else {})
        self.call_from_thread(self.set_keymap, good)
        for fault in faults:
            self.journal.add(fault)
        if faults:
            more = f" ({len(faults) - 1} more in the log, F6)" if len(faults) > 1 else ""
            self.call_from_thread(self.notify, faults[0] + more, title="Keys", severity="warning", markup=False)

    def _theme_chosen(self, theme: Theme) -> None:
        """A theme chosen in the palette holds after the next start too."""
        if self.config is not None and theme.name != self.config.settings().theme:
            self.config = replace(self.config, values={**self.config.values, "theme": theme.name})
            self.run_worker(partial(_remember, {"theme": theme.name}), thread=True, exit_on_error=False)

    def settings_for(self, spec: str | None) -> Settings:
        """What holds for a pair (None: the one that answers when nothing is chosen)."""
        if self.config is None:
            return self.settings
        return self.config.settings(spec or self.config.settings().pair or _starter())

    def load_pair(self, spec: str | None, draft: str | None) -> None:
        self.keeper.open(lambda: self._choose(spec, draft, self.settings_for(spec)))

    def choose_pair(self, name: str, *, first: bool = False) -> None:
        """Chat with a pair from now on, also after the next start. `first`: nothing was ever asked of a model yet."""
        self.post_message(messages.PairChosen(name))
        self.run_worker(partial(_remember, {"pair": name}), thread=True, exit_on_error=False)
        if first:
            from localspec.tui.screens.samples import SamplesScreen

            while len(self.screen_stack) > 1:
                self.pop_screen()
            self.push_screen(SamplesScreen())

    def action_open(self, name: str) -> None:
        """Shows a screen, fresh, over the chat; one that is open already stays."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.push_screen(screen(name))

    def on_pair_chosen(self, message: messages.PairChosen) -> None:
        self.load_pair(message.spec, message.draft)

    def on_settings_changed(self, message: messages.SettingsChanged) -> None:
        before, self.settings = self.settings, message.settings
        if not self.screen_stack:
            # The settings screen was open when the app was left.
            return
        self.chat.apply_settings()
        choice = self.engine.choice
        if choice is not None and message.settings.needs_loading(before):
            self.load_pair(choice.name, None)
        elif message.settings.share_engine != before.share_engine:
            self.keeper.share_again()

    def on_downloads_changed(self, message: messages.DownloadsChanged) -> None:
        self.fetching.changed(message.name)

    def on_consent_asked(self, message: messages.ConsentAsked) -> None:
        self.fetching.consent_asked(message)

    def _welcome(self) -> None:
        """No model could be found: the menu says what to do."""
        from localspec.tui.screens.menu import MenuScreen

        if not self._welcomed and len(self.screen_stack) == 1:
            self.push_screen(MenuScreen(first_run=self.settings.pair is None))
        self._welcomed = True

    def on_engine_state_changed(self, message: messages.EngineStateChanged) -> None:
        state = message.state
        if not self.screen_stack:
            # The app is being left.
            return
        if state.choice is not None and state.phase == "ready":
            self.settings = self.settings_for(state.choice.name)
            self._welcomed = True
        elif state.choice is None and state.phase == "broken":
            self._welcome()
        if state.lent:
            # The engine's caches hold what the command asked, and no chat any more.
            self.caches.answered(None, 0)
        self._note(state)
        self.chat.show_engine(state)
        for shown in self.screen_stack:
            if told := getattr(shown, "engine_changed", None):
                told(state)

    def _note(self, state: EngineState) -> None:
        """What the log screen shows of it: changes, not progress."""
        name = state.choice.name if state.choice else "no model"
        line = f"{name}: {state.error or state.phase}"
        if line != self._noted and not (state.phase == "loading" and state.choice is None):
            self._noted = line
            self.journal.add(line)
            for note in state.notes if state.phase == "ready" else ():
                self.journal.add(note)

    def on_events_ready(self) -> None:
        if self.screen_stack:
            self.chat.events_ready()

    def on_chat_opened(self, message: messages.ChatOpened) -> None:
        self.chat.open_chat(message.chat_id, message.message_id)

    def on_prompt_suggested(self, message: messages.PromptSuggested) -> None:
        self.chat.suggest(message.text, send=message.send)

    def _cache_store(self) -> KvStore | None:
        kept = self.history is not None and self.history.kept
        return KvStore(self.settings.kv_disk_gb * 1e9) if kept else None

    def on_unmount(self) -> None:
        self.downloads.close()
        self.caches.close()
        self.keeper.close()


def run_app(settings: Settings | None = None) -> None:
    """The app on this terminal, until the person leaves it."""
    from localspec.chat.history import History

    config = None if settings else config_file.load()
    holds = settings or (config or Config()).settings()
    history = History.open() if holds.history else History.in_memory()
    LocalspecApp(settings=settings, config=config, history=history, share=True).run()
