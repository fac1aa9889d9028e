"""Where the caches of old chats lie, and how much disk they may take.

A cache only saves time: when it is missing, does not fit, or cannot be written, the chat is read again and nothing is
said. `state.py` in the engine decides what fits.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from localspec import paths
from localspec.engine.errors import Busy, EngineError

WORTH_TOKENS = 256
"""A shorter conversation is read again about as fast as its cache is loaded."""

KEEP_FREE = 2 << 30
"""Bytes of disk that are left alone: a cache is never worth a full disk."""

STALE_S = 3600.0
"""A half-written file this old has no writer any more."""


class Keeps(Protocol):
    """What is needed of an engine's client."""

    def save(self, path: Path) -> int: ...

    def restore(self, path: Path) -> int: ...


class KvStore:
    """The caches of chats by their numbers, the least recently used going first. `budget` is in bytes; 0 keeps none."""

    def __init__(self, budget: float, folder: Path | None = None) -> None:
        self._budget = budget
        self._folder = folder or paths.cache_dir() / "kv"

    def save(self, client: Keeps, chat_id: int, tokens: int) -> bool:
        """Keeps the engine's caches for a chat of that many tokens; whether it did. The engine must be idle."""
        if self._budget <= 0 or tokens < WORTH_TOKENS:
            return False
        try:
            # A cache holds what was said: nobody else may read it.
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if shutil.disk_usage(self._folder).free < KEEP_FREE:
                return False
            written = client.save(self._path(chat_id))
        except Busy:
            return False
        except (EngineError, OSError):
            self.forget(chat_id)
            return False
        if written > self._budget:
            self.forget(chat_id)
        self._trim()
        return 0 < written <= self._budget

    def restore(self, client: Keeps, chat_id: int) -> int:
        """Takes up a chat's caches; returns the tokens that need no reading now, 0 when there is nothing that fits."""
        path = self._path(chat_id)
        if not path.exists():
            return 0
        try:
            tokens = client.restore(path)
        except EngineError:
            return 0
        if tokens:
            with suppress(OSError):
                os.utime(path)
        return tokens

    def has(self, chat_id: int) -> bool:
        """Whether there is something to take up for a chat."""
        return self._path(chat_id).exists()

    def forget(self, chat_id: int) -> None:
        """Removes a chat's caches."""
        for file in self._files(chat_id):
            with suppress(OSError):
                file.unlink()

    def size(self) -> int:
        """Bytes on disk."""
        return sum(size for _, _, size in self._chats())

    def _path(self, chat_id: int) -> Path:
        return self._folder / f"{chat_id}.bin"

    def _files(self, chat_id: int) -> list[Path]:
        return sorted(self._folder.glob(f"{chat_id}.bin*")) if self._folder.is_dir() else []

    def _chats(self) -> Iterator[tuple[float, int, int]]:
        """Of each chat: when it was used last, its number, its bytes."""
        for path in self._folder.glob("*.bin") if self._folder.is_dir() else ():
            with suppress(OSError, ValueError):
                number = int(path.stem)
                yield path.stat().st_mtime, number, sum(file.stat().st_size for file in self._files(number))

    def _trim(self) -> None:
        """Down to the budget, and without what a killed process left half-written."""
        for part in self._folder.glob("*.part"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > STALE_S:
                    part.unlink()
        chats = sorted(self._chats())
        total = sum(size for _, _, size in chats)
        for _, number, size in chats:
            if total <= self._budget:
                return
            self.forget(number)
            total -= size
