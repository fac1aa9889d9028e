"""Where the engine's process writes its standard error: one file, appended to, kept small.

Two clients never share a file: the second takes `engine-2.log` beside it, so that the lines after an offset are one
child's own, and nobody truncates a file another writes to.
"""

import os
import tempfile
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
"""A log this long is moved aside when the next child starts: days of use, and still opened at once by any editor."""

_SLOTS = 8


class EngineLog:
    """An open log. `notice` says where it went when the wanted place cannot be written."""

    def __init__(self, wanted: Path) -> None:
        from filelock import FileLock, Timeout

        self.notice: str | None = None
        self.stream: FileIO
        reason = "other engines use it"
        for slot in range(1, _SLOTS + 1):
            path = wanted if slot == 1 else wanted.with_name(f"{wanted.stem}-{slot}{wanted.suffix}")
            lock = FileLock(f"{path}.lock", thread_local=False)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                lock.acquire(timeout=0)
            except Timeout:
                continue
            except (OSError, NotImplementedError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                break
            try:
                self._open(path)
            except OSError as error:
                lock.release()
                reason = error.strerror or str(error)
                break
            self._lock: FileLock | None = lock
            return
        self._lock = None
        try:
            handle, name = tempfile.mkstemp(prefix="localspec-engine-", suffix=".log")
            os.close(handle)
        except OSError:
            name = os.devnull
        self._open(Path(name))
        self.notice = f"The engine's log cannot be kept in {wanted.parent} ({reason}); it goes to {self.path}."

    def _open(self, path: Path) -> None:
        if path.exists() and path.stat().st_size > MAX_BYTES:
            path.replace(path.with_name(f"{path.name}.old"))
        self.path = path
        self.stream = path.open("ab", buffering=0)

    def begin(self, title: str) -> int:
        """Writes a child's header line; returns the offset at which the child's own lines begin. A full disk costs the
        header, not the engine."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        with suppress(OSError):
            self.stream.write(f"=== {now} {title} ===\n".encode("utf-8", "backslashreplace"))
        return self.stream.seek(0, os.SEEK_END)

    def close(self) -> None:
        self.stream.close()
        if self._lock is not None:
            self._lock.release()


def read_tail(path: Path, offset: int, limit: int = 64 * 1024) -> str:
    """The text after `offset`, at most its last `limit` bytes; empty when it cannot be read."""
    try:
        with path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(offset, end - limit))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""
