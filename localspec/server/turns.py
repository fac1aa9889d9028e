"""One answer at a time, in the order of asking: the queue in front of an engine that several clients share.

Threads wait here, the event loop never does. Whoever owns the engine (the app) asks with `first`: its question goes
before all others that wait, and after the answer being made.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

WAITING = 32
"""Requests that may wait: more would wait longer than their clients do."""


class Full(Exception):
    """Too many wait already."""


class Left(Exception):
    """Who waited in this place is gone."""


class Place:
    """A place in the queue. `leave` gives it up from any thread; a turn that has begun is not ended by it."""

    def __init__(self, turns: "Turns") -> None:
        self._turns = turns
        self.left = False

    def leave(self) -> None:
        with self._turns._changed:
            self.left = True
            self._turns._forget(self)


class Turns:
    """`limit` places to wait in, besides the turn itself."""

    def __init__(self, limit: int = WAITING) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: deque[Place] = deque()
        self._taken = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def taken(self) -> bool:
        """An answer is being made."""
        return self._taken

    def enter(self, *, first: bool = False) -> Place:
        """A place in the queue; give it to `turn`, or leave it. Raises `Full`; with `first` there is always room."""
        with self._changed:
            if not first and len(self._waiting) >= self._limit + (not self._taken):
                raise Full
            place = Place(self)
            if first:
                self._waiting.appendleft(place)
            else:
                self._waiting.append(place)
            return place

    @contextmanager
    def turn(self, place: Place) -> Iterator[None]:
        """Waits for the place's turn and holds it. Raises `Left` when it was given up meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: place.left or (not self._taken and self._waiting[0] is place))
            if place.left:
                raise Left
            self._waiting.popleft()
            self._taken = True
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()

    def _forget(self, place: Place) -> None:
        with suppress(ValueError):
            self._waiting.remove(place)
        self._changed.notify_all()
