"""The engine as the endpoints see it: who runs it, whose turn it is, what has been counted, and what if it dies."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from localspec.chat.settings import Settings
from localspec.engine.errors import EngineDied, EngineError
from localspec.engine.events import Event
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment, Speculate
from localspec.server.metrics import Metrics
from localspec.server.turns import Turns

if TYPE_CHECKING:
    from localspec.server.flow import Flow


class Engine(Protocol):
    """What is needed of an engine's client."""

    def generate(self, request: Request) -> Iterator[Event]: ...

    def cancel(self) -> None: ...

    def count(self, prompt: tuple[Segment, ...]) -> int: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an engine has loaded: `name` as it was chosen; `settings` are for what requests leave open."""

    config: EngineConfig
    info: EngineInfo
    name: str
    speculate: Speculate
    settings: Settings


class Down(EngineDied):
    """The engine ended and does not come back."""


class Desk:
    """One engine for all clients. `revive` loads it again after its process ended; None leaves that to its owner."""

    def __init__(
        self,
        engine: Engine,
        loaded: Loaded,
        *,
        turns: Turns | None = None,
        revive: Callable[[], object] | None = None,
        on_answering: Callable[[bool], object] | None = None,
    ) -> None:
        self.engine = engine
        self.loaded = loaded
        self.turns = turns or Turns()
        self.metrics = Metrics()
        self._revive = revive
        self._on_answering = on_answering or (lambda _answering: None)
        self._lock = threading.Lock()
        self._may_revive = True
        self._down = ""
        self.closing = False
        self.flows: set[Flow] = set()

    @property
    def down(self) -> str:
        """Why there is no engine any more; empty while there is one."""
        return self._down

    def generate(self, request: Request) -> Iterator[Event]:
        """The events of one answer; whoever calls has the turn. Raises `EngineError`, `Down` for good."""
        if self.closing:
            raise Down("The server is ending.")
        if self._down:
            raise Down(self._down)
        return self.engine.generate(request)

    def answering(self, now: bool) -> None:
        """Tells the owner that an answer for somebody else begins or is over."""
        self._on_answering(now)

    def finished(self) -> None:
        """An answer came to its end: the engine is sound."""
        self._may_revive = True

    def died(self, error: EngineDied) -> None:
        """Loads the engine again, once until it has answered; whoever calls has the turn."""
        with self._lock:
            if self.closing or self._revive is None or self._down:
                return
            if not self._may_revive:
                self._down = f"{error} It ended twice in a row and is not started again."
                return
            self._may_revive = False
        try:
            self._revive()
        except EngineError as again:
            self._down = str(again)

    def close(self) -> None:
        """No answer begins any more; those being made end as cancelled. The owner's own are left alone."""
        self.closing = True
        for flow in list(self.flows):
            flow.cancel()
