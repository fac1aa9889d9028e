"""An answer on its way into the history: kept as it streams, so that a crash costs at most its last second."""

import time
from collections.abc import Callable
from dataclasses import replace

from localspec.chat.errors import HistoryError
from localspec.chat.history import History
from localspec.chat.splitting import Part
from localspec.chat.turns import Turn
from localspec.engine.events import Cycle, Finished, Started

EVERY_S = 1.0


class Recorder:
    """Builds `turn` from an answer's events and keeps it below `parent` in a chat.

    Nothing here raises because of the disk: the answer goes on, and `problem` says in one line why it is not kept. A
    request that is refused before it starts leaves no empty answer behind. `turn` may be one that was stopped before:
    its text is continued, cycles counting on.
    """

    def __init__(
        self,
        history: History,
        chat_id: int,
        parent: int | None,
        turn: Turn | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history, self._chat_id, self._parent = history, chat_id, parent
        self._clock = clock
        self.turn = turn or Turn("assistant")
        self._cycles_before = self.turn.cycles[-1].cycle if self.turn.cycles else 0
        self._saved_at = clock()
        self.problem: str | None = None

    def started(self, event: Started) -> None:
        self.turn.started = event
        self.turn.reason, self.turn.broken = None, False
        self._keep()

    def part(self, part: Part) -> Part:
        """Takes one token; returns it as it is kept."""
        if self._cycles_before and part.token.cycle:
            token = replace(part.token, cycle=part.token.cycle + self._cycles_before)
            part = replace(part, token=token)
        self.turn.parts.append(part)
        self.turn.text += part.text
        self.turn.thoughts += part.thought
        if self._clock() - self._saved_at >= EVERY_S:
            self._keep()
        return part

    def cycle(self, event: Cycle) -> Cycle:
        """Takes one cycle; returns it as it is kept."""
        event = replace(event, cycle=event.cycle + self._cycles_before)
        self.turn.cycles.append(event)
        return event

    def finished(self, event: Finished) -> None:
        self.turn.reason, self.turn.stats = event.reason, event.stats
        self._keep()

    def broken(self) -> None:
        """The answer ended with an error: what there is of it is kept, as unfinished."""
        if self.turn.started is not None:
            self.turn.broken = True
            self._keep()

    def _keep(self) -> None:
        self._saved_at = self._clock()
        try:
            if self.turn.id is None:
                self._history.add(self._chat_id, self.turn, self._parent)
            else:
                self._history.save(self.turn)
        except HistoryError as error:
            self.problem = str(error)
