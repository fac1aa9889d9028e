"""Ctrl+C: the first one while an answer is made asks it to stop, any other one ends the program."""

import signal
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

from localspec.engine.events import Event


class Interrupts:
    """While inside, SIGINT calls `stop` once; a second one raises KeyboardInterrupt. `hit` tells whether one came."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before: Any = None
        self.hit = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events; an interrupt that came before the engine had begun is passed on once it has."""
        for event in events:
            if self.hit:
                self._stop()
            yield event

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.hit:
            raise KeyboardInterrupt
        self.hit = True
        self._stop()
