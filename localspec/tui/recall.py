"""The questions asked before, for the arrow keys: kept in the state folder, newest last."""

import json
import os
from contextlib import suppress
from pathlib import Path

KEEP = 500
MAX_CHARACTERS = 20_000
"""A longer question is a pasted file: nobody looks for it with the arrow keys."""


class Recall:
    """Goes back and forth through earlier questions. `file` None keeps them for this run only. Never raises: what
    cannot be read or written is just not there."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._asked: list[str] = []
        self._loaded = file is None
        self._at: int | None = None
        self._draft = ""

    def add(self, text: str) -> None:
        self._load()
        self._at = None
        if not text.strip() or len(text) > MAX_CHARACTERS or (self._asked and self._asked[-1] == text):
            return
        self._asked = [*self._asked[-KEEP + 1 :], text]
        if self._file is None:
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Appended in one write, so that two programs at once lose nothing; only for the person's own eyes.
            number = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(number, (json.dumps(text) + "\n").encode())
            finally:
                os.close(number)

    def back(self, current: str) -> str | None:
        """The question before; `current` is kept as the way back. None when there is none."""
        self._load()
        if self._at is None:
            self._at, self._draft = len(self._asked), current
        if self._at == 0:
            return None
        self._at -= 1
        return self._asked[self._at]

    def forth(self) -> str | None:
        """The question after, at last what was in the box; None when not among earlier questions."""
        if self._at is None:
            return None
        self._at += 1
        if self._at >= len(self._asked):
            self._at = None
            return self._draft
        return self._asked[self._at]

    def _load(self) -> None:
        if self._loaded or self._file is None:
            return
        self._loaded = True
        with suppress(OSError, ValueError):
            lines = self._file.read_text(encoding="utf-8").splitlines()
            self._asked = [text for line in lines[-KEEP:] if isinstance(text := json.loads(line), str)]
            if len(lines) > 2 * KEEP:
                self._file.write_text("".join(json.dumps(text) + "\n" for text in self._asked), encoding="utf-8")
