"""What a download says while it runs, as data: sentences, and at most ten figures a second."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from localspec.models.errors import ModelError

Phase = Literal["downloading", "verifying", "done"]

EVENTS_PER_SECOND = 10
RATE_WINDOW_S = 5.0
"""The rate is that of the last seconds: long enough to be steady, short enough to show a stall."""


KEPT = "what was fetched is kept (of Python packages the finished ones), the same command continues"
"""What a person is told who stops a download."""


@dataclass(frozen=True, slots=True)
class Said:
    """One plain sentence about file `key`: a source tried, a wait and what for, a restart and why."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Moved:
    """How far file `key` is: bytes `done` of `total` (None: not known), `rate` in bytes/s, `left_s` in seconds."""

    key: str
    name: str
    source: str
    phase: Phase
    done: int
    total: int | None
    rate: float | None = None
    left_s: float | None = None


PullEvent = Said | Moved


class Cancelled(ModelError):
    """The person stopped the download; what was fetched is kept."""


def _ignore(event: PullEvent) -> None:
    del event


@dataclass
class Job:
    """What one pull carries along: where events go, and whether it was cancelled. `report` is called in the thread
    that downloads."""

    report: Callable[[PullEvent], None] = _ignore
    cancel: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise `Cancelled` once the person has cancelled."""
        if self.cancel.is_set():
            raise Cancelled(f"cancelled; {KEPT}")

    def wait(self, seconds: float) -> None:
        """Wait, but not past a cancel."""
        self.cancel.wait(seconds)
        self.check()


class Meter:
    """Turns byte counts into `Moved` events, few enough to paint; the last count of a phase always goes out."""

    def __init__(self, job: Job, key: str, name: str, source: str, total: int | None) -> None:
        self._job = job
        self._key, self._name, self._source = key, name, source
        self.total = total
        self._seen: deque[tuple[float, int]] = deque()
        self._phase: Phase | None = None
        self._next = 0.0

    def at(self, done: int, phase: Phase = "downloading") -> None:
        """Report that `done` bytes of the file are there, or through the check."""
        now = time.monotonic()
        if phase != self._phase:
            self._seen.clear()
            self._phase, self._next = phase, 0.0
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_WINDOW_S:
            self._seen.popleft()
        if now < self._next and done != self.total:
            return
        self._next = now + 1 / EVENTS_PER_SECOND
        rate = self._rate()
        left = (self.total - done) / rate if rate and self.total is not None else None
        self._job.report(Moved(self._key, self._name, self._source, phase, done, self.total, rate, left))

    def say(self, text: str) -> None:
        self._job.report(Said(self._key, text))

    def _rate(self) -> float | None:
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return (last - first) / (end - start) if end - start > 0.2 and last > first else None
