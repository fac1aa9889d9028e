"""The app's engine for the commands in other terminals, which then load no model of their own.

One answer at a time, in turns; the person's own question goes before all that wait. What goes wrong here costs the
commands a load and the person nothing: it is a line in the log.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from localspec.chat.errors import reason_of
from localspec.chat.settings import Settings
from localspec.engine.requests import EngineInfo
from localspec.server.turns import Turns

if TYPE_CHECKING:
    from localspec.chat.pairing import Choice
    from localspec.server.desk import Engine
    from localspec.server.embedded import Embedded

LEAVE_S = 0.3
"""How long leaving the app may wait for answers to commands to end in order."""


class Sharing:
    """`settings` None: nothing is shared. They are asked whenever a model was loaded. Methods are for threads; `close`
    returns within `LEAVE_S`."""

    def __init__(
        self,
        settings: Callable[[], Settings] | None,
        on_lent: Callable[[bool], object] = lambda _: None,
        log: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.turns = Turns()
        self._settings, self._on_lent, self._log = settings, on_lent, log
        self._lock = threading.Lock()
        self._shared: Embedded | None = None
        self._wanted: object = None

    @property
    def port(self) -> int | None:
        """Where the commands ask, None while they cannot."""
        shared = self._shared
        return shared.port if shared is not None else None

    def begin(self, engine: "Engine", choice: "Choice", info: EngineInfo) -> None:
        """A model was loaded. Commands find it from now on, if the person lets them."""
        settings = self._settings() if self._settings is not None else None
        if settings is None or not settings.share_engine:
            return
        self._wanted = mine = object()
        try:
            from localspec.server import embedded
            from localspec.server.desk import Loaded

            loaded = Loaded(choice.config, info, choice.name, settings.speculate or choice.speculate, settings)
            shared = embedded.start(engine, loaded, self.turns, on_answering=self._on_lent, log=self._log)
        except Exception as error:
            self._log(f"commands cannot use this engine: {reason_of(error)}")
            return
        with self._lock:
            if self._wanted is mine:
                self._shared = shared
                return
        # The model was changed, or the app left, while the server began.
        shared.close()

    def end(self) -> None:
        """Nobody finds the engine any more; answers for commands end. To be called before the engine is closed."""
        with self._lock:
            shared, self._shared, self._wanted = self._shared, None, None
        if shared is not None:
            shared.close()

    def close(self) -> None:
        """The app is left: as `end`, but it waits for nobody long."""
        thread = threading.Thread(target=self.end, daemon=True)
        thread.start()
        thread.join(LEAVE_S)
