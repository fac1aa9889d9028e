"""A small JSON file of verdicts worth remembering between runs. Losing it costs a measurement, never an answer."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


class Memo:
    """Named values in one JSON file. An absent or damaged file reads as empty; one that cannot be written stays."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        """The remembered value, None when there is none."""
        return self._read().get(key)

    def put(self, key: str, value: Any) -> None:
        """Remember a JSON value; other processes' values are kept, and a failure to write is not an error."""
        if self._path is None:
            return
        values = self._read() | {key: value}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as out:
                    json.dump(values, out, indent=1, sort_keys=True)
                Path(name).replace(self._path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            values = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return values if isinstance(values, dict) else {}
