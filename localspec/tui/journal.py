"""What the app itself did and met, for the log screen: kept in memory, oldest forgotten first."""

import threading
import time
from collections import deque
from dataclasses import dataclass

KEEP = 2000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line, and when it was written (seconds since the epoch). `number` counts all lines from 1."""

    number: int
    at: float
    text: str


class Journal:
    """Lines from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque(maxlen=KEEP)
        self._count = 0

    def add(self, text: str) -> None:
        """Write a line; line breaks become spaces."""
        with self._lock:
            self._count += 1
            self._entries.append(Entry(self._count, time.time(), " ".join(text.split("\n"))))

    def after(self, number: int) -> list[Entry]:
        """What was written since line `number` (0: everything that is kept)."""
        with self._lock:
            return [entry for entry in self._entries if entry.number > number]
