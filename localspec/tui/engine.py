"""The app's one engine: loaded, asked and closed in threads of its own, so that the screen never waits for it.

The threads only append to a queue and post messages. Whoever handles `EventsReady` takes what has come since: however
fast tokens arrive, the screen is told once and paints as often as it likes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from localspec.chat.splitting import Part, Splitter
from localspec.engine.errors import Busy, EngineError
from localspec.engine.events import Cycle, Event, Finished, Notice, Prefill, Started, Token
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment
from localspec.server.turns import Left, Place
from localspec.tui.sharing import Sharing

if TYPE_CHECKING:
    from localspec.chat.pairing import Choice
    from localspec.chat.recording import Recorder
    from localspec.chat.settings import Settings

LAST_WORDS_S = 0.3

STOP_S = 1.0
"""An answer stops within this, also in the middle of the prompt."""

Phase = Literal["none", "loading", "ready", "answering", "broken"]


class EngineLike(Protocol):
    """What the app needs of an engine's client."""

    def start(self, on_progress: Callable[[float], None] | None = None) -> EngineInfo: ...
    def generate(self, request: Request) -> Iterator[Event]: ...
    def cancel(self) -> None: ...
    def count(self, prompt: tuple[Segment, ...]) -> int: ...
    def save(self, path: Path) -> int: ...
    def restore(self, path: Path) -> int: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineState:
    """`none`: nothing is loaded and nothing is wrong. `progress` is a fraction while loading; `error` one line when
    broken; `notes` are lines for the person about what was loaded; `lent`: an answer for a command in another terminal
    is being made."""

    phase: Phase = "none"
    choice: "Choice | None" = None
    progress: float = 0.0
    info: EngineInfo | None = None
    error: str = ""
    notes: tuple[str, ...] = ()
    lent: bool = False

    @property
    def can_answer(self) -> bool:
        return self.phase == "ready"


@dataclass(frozen=True, slots=True)
class Broken:
    """The answer ended with an error instead of a `Finished`."""

    error: str
    engine_died: bool


Arrived = Started | Prefill | Part | Cycle | Notice | Finished | Broken


class EngineKeeper:
    """Keeps one engine. Methods are for the app's thread and return at once; what comes of them arrives through
    `on_state` and `on_events`, which are called in other threads. With `settings` the engine is shared with commands in
    other terminals (see `sharing`)."""

    def __init__(
        self,
        make: Callable[[EngineConfig], EngineLike],
        on_state: Callable[[EngineState], object],
        on_events: Callable[[], object],
        settings: Callable[[], "Settings"] | None = None,
        log: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._make = make
        self._on_state = on_state
        self._on_events = on_events
        self._lock = threading.Lock()
        self._turn = self._asked = 0
        self._client: EngineLike | None = None
        self._queue: list[Arrived] = []
        self._told = False
        self._thread: threading.Thread | None = None
        self._place: Place | None = None
        self._has_turn = False
        self.sharing = Sharing(settings, self._lent, log)
        self.state = EngineState()

    def open(self, choose: "Callable[[], Choice]") -> None:
        """Load what `choose` (called in a thread) decides, in place of what is loaded now."""
        with self._lock:
            self._turn += 1
            turn, old = self._turn, self._client
            self._client = None
        self._set(turn, EngineState("loading"))
        self._run(lambda: self._load(turn, old, choose))

    def restart(self) -> None:
        """Load again what was loaded last."""
        choice = self.state.choice
        if choice is not None:
            self.open(lambda: choice)

    def ask(self, request: Request, splitter: Splitter, begin: "Callable[[], Recorder]") -> None:
        """Make an answer, which grows in the turn of the recorder that `begin` (called in a thread) gives.

        Raises `Busy` when the engine is not ready for it.
        """
        with self._lock:
            if self.state.phase != "ready" or self._client is None:
                raise Busy("An answer is being made already: wait for its end, or stop it first.")
            client, turn = self._client, self._turn
            self._asked += 1
            asked = self._asked
        self._set(turn, replace(self.state, phase="answering"))
        self._thread = self._run(lambda: self._answer(turn, asked, client, request, splitter, begin))

    def cancel(self) -> None:
        """End the answer being made, or waiting for its turn."""
        client = self._client
        if client is not None and self.state.phase == "answering":
            if self._place is not None:
                self._place.leave()
            if self._has_turn:
                client.cancel()

    def count(self, prompt: tuple[Segment, ...]) -> int:
        """The tokens of a prompt. Waits for the engine: for threads. Raises `EngineError`."""
        from localspec.engine.errors import EngineDied

        client, turn = self._client, self._turn
        if client is None:
            raise EngineError("No model is loaded.")
        try:
            return client.count(prompt)
        except EngineDied as error:
            self._set(turn, replace(self.state, phase="broken", error=str(error)))
            raise

    def between(self, work: Callable[[EngineLike], None]) -> threading.Thread | None:
        """Do something with the engine in a thread, after the answer that is just being stopped; None without one."""
        client, answering = self._client, self._thread

        def wait_and_work(client: EngineLike) -> None:
            if answering is not None:
                answering.join(STOP_S)
            work(client)

        return None if client is None else self._run(partial(wait_and_work, client))

    def take(self) -> list[Arrived]:
        """The events since the last call, in order."""
        with self._lock:
            events, self._queue = self._queue, []
            self._told = False
        return events

    def close(self) -> None:
        """End everything; the engine's process is gone when this returns, within half a second."""
        with self._lock:
            self._turn += 1
            client, self._client = self._client, None
        self.sharing.close()
        if client is not None:
            client.close()
        if self._thread is not None:
            # What the answer's last second brought is still being written down.
            self._thread.join(LAST_WORDS_S)

    # -- in threads --------------------------------------------------------------------------------------------------

    def _run(self, work: Callable[[], None]) -> threading.Thread:
        # Daemons: a thread that waits for a process must not keep the program from ending.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def _set(self, turn: int, state: EngineState) -> None:
        with self._lock:
            if turn != self._turn:
                return
            self.state = state
        self._on_state(state)

    def _change(self, turn: int, **changes: Any) -> None:
        """Another state that differs from the one now only in this."""
        with self._lock:
            if turn != self._turn:
                return
            self.state = state = replace(self.state, **changes)
        self._on_state(state)

    def _load(self, turn: int, old: EngineLike | None, choose: "Callable[[], Choice]") -> None:
        from localspec.chat.errors import reason_of
        from localspec.chat.pairing import start

        choice: Choice | None = None

        def make(config: EngineConfig) -> EngineLike:
            client = self._make(config)
            with self._lock:
                if turn != self._turn:
                    raise EngineError("Another model was chosen meanwhile.")
                self._client = client
            return client

        def progress(fraction: float) -> None:
            self._set(turn, EngineState("loading", choice, fraction))

        try:
            if old is not None:
                self.sharing.end()
                self._let_go(old)
            choice = choose()
            self._set(turn, EngineState("loading", choice))
            client, info, notes = start(choice, make, progress)
        except Exception as error:
            self._set(turn, EngineState("broken", choice, error=reason_of(error)))
            return
        self._set(turn, EngineState("ready", choice, 1.0, info, notes=(*choice.notes, *notes)))
        if turn == self._turn:
            self.sharing.begin(client, choice, info)

    def share_again(self) -> None:
        """The person has changed their mind on sharing, or what is shared."""
        client, choice, info = self._client, self.state.choice, self.state.info

        def work() -> None:
            self.sharing.end()
            if client is not None and choice is not None and info is not None:
                self.sharing.begin(client, choice, info)

        self._run(work)

    def _lent(self, now: bool) -> None:
        self._change(self._turn, lent=now)

    def _let_go(self, client: EngineLike) -> None:
        """Ends an engine; an answer it is making is stopped first, so that what there is of it is kept."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            if (place := self._place) is not None:
                place.leave()
            client.cancel()
            thread.join(STOP_S)
        client.close()

    def _answer(
        self,
        turn: int,
        asked: int,
        client: EngineLike,
        request: Request,
        splitter: Splitter,
        begin: "Callable[[], Recorder]",
    ) -> None:
        from localspec.chat.errors import reason_of
        from localspec.engine.errors import EngineDied

        after: dict[str, Any] = {"phase": "ready"}
        recorder = begin()
        try:
            with self._its_turn():
                for event in client.generate(request):
                    self._put(asked, *_recorded(recorder, splitter, event))
        except Left:
            recorder.broken()
            self._put(asked, Broken("Stopped before it was asked: the question is back in the prompt.", False))
        except Exception as error:
            # What the splitter still holds is text the person was not shown yet.
            rest = [recorder.part(part) for part in splitter.finish()]
            recorder.broken()
            died = isinstance(error, EngineDied)
            if died:
                after = {"phase": "broken", "error": reason_of(error)}
            self._put(asked, *rest, Broken(reason_of(error), died))
        if recorder.problem:
            self._put(asked, Notice(recorder.problem))
        self._change(turn, **after)

    @contextmanager
    def _its_turn(self) -> Iterator[None]:
        """Around an answer of the app's own: after the one for a command that is being made, before all that wait.

        Raises `Left` when it was stopped while it waited.
        """
        place = self.sharing.turns.enter(first=True)
        self._place = place
        try:
            with self.sharing.turns.turn(place):
                self._has_turn = True
                if place.left:
                    raise Left
                yield
        finally:
            self._place, self._has_turn = None, False

    def _put(self, asked: int, *events: Arrived) -> None:
        with self._lock:
            if asked != self._asked or not events:
                return
            self._queue += events
            tell, self._told = not self._told, True
        if tell:
            self._on_events()


def _recorded(recorder: "Recorder", splitter: Splitter, event: Event) -> list[Arrived]:
    """Takes one event into the answer's turn; what the screen is told of it."""
    match event:
        case Token():
            return [recorder.part(part) for part in splitter.push(event)]
        case Cycle():
            recorder.cycle(event)
        case Started():
            recorder.started(event)
        case Finished():
            parts: list[Arrived] = [recorder.part(part) for part in splitter.finish()]
            recorder.finished(event)
            return [*parts, event]
    return [event]
