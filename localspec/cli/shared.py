"""The engine that runs already, as long as it is there; then one of the command's own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.engine.client import EngineClient
from localspec.engine.errors import EngineDied
from localspec.engine.events import Event, Finished, Started, Token
from localspec.engine.requests import Request, Segment

if TYPE_CHECKING:
    from localspec.server.remote import RemoteEngine


class SharedEngine:
    """Asks `running`. When that ends or hangs before it said anything, the engine that `load` makes is asked instead
    (`load` is told the reason); after the first token the error stands, because what was shown cannot be taken back.

    Raises what the two engines and `load` raise.
    """

    def __init__(self, running: "RemoteEngine", load: Callable[[EngineDied], EngineClient]) -> None:
        self._running = running
        self._engine: RemoteEngine | EngineClient = running
        self._load = load
        self._cancelled = False

    def generate(self, request: Request) -> Iterator[Event]:
        started = spoken = False
        try:
            for event in self._engine.generate(request):
                if isinstance(event, Finished) and self._left_alone(event, spoken):
                    raise EngineDied(f"The running engine (process {self._running.running.pid}) was ended.")
                started, spoken = started or isinstance(event, Started), spoken or isinstance(event, Token)
                yield event
            return
        except EngineDied as error:
            if spoken:
                raise
            instead = self._instead(error)
        for event in instead.generate(request):
            if not (started and isinstance(event, Started)):
                yield event

    def cancel(self) -> None:
        self._cancelled = True
        self._engine.cancel()

    def count(self, prompt: tuple[Segment, ...]) -> int:
        try:
            return self._engine.count(prompt)
        except EngineDied as error:
            return self._instead(error).count(prompt)

    def save(self, path: Path) -> int:
        return self._engine.save(path)

    def restore(self, path: Path) -> int:
        return self._engine.restore(path)

    def close(self) -> None:
        self._engine.close()

    def _left_alone(self, last: Finished, spoken: bool) -> bool:
        """Whether an answer that was never begun was cancelled, and not from here."""
        return last.reason == "cancelled" and not (spoken or self._cancelled) and self._engine is self._running

    def _instead(self, error: EngineDied) -> EngineClient:
        if self._engine is not self._running:
            raise error
        self._running.close()
        client = self._load(error)
        self._engine = client
        return client
