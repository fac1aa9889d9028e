"""A file on its way: `NAME.SOURCE.part` beside its place, and a small record of what it is a part of.

A part is only ever renamed to its final name after length and sha256 were verified, so whatever carries the final name
is whole. Each source has a part of its own: a change of source does not throw away what another one fetched.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from localspec.models.errors import ModelError
from localspec.models.progress import Job, Meter

CHUNK = 1 << 20
FETCHED = ".fetched.json"
"""What the note beside a fetched file adds to its name."""

FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""What a full disk or a used-up quota says."""


class WrongContent(ModelError):
    """What was fetched is not the file that was asked for."""


class DiskFull(ModelError):
    """The disk filled up; the message says what is kept."""


def human(size: float) -> str:
    """Bytes for people, in decimal units as disks and networks are sold: 1.1 GB."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 1000 else f"{size / 1000:.1f} TB"


def lock_of(target: Path) -> Path:
    """The lock file under which `target` is fetched and removed."""
    return target.with_name(f".{target.name}.lock")


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text`; a break leaves the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class Part:
    """The part of `target` that `source` has fetched so far."""

    def __init__(self, target: Path, source: str) -> None:
        self.target = target
        self.source = source
        self.path = target.with_name(f"{target.name}.{source}.part")
        self._record = target.with_name(f"{target.name}.{source}.json")

    def size(self) -> int:
        """Bytes here; 0 when there is none."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def record(self) -> dict[str, Any]:
        """What was noted about the part; empty when there is no readable note."""
        try:
            found = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def note(self, **facts: Any) -> None:
        write_atomically(self._record, json.dumps(facts))

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)

    @contextmanager
    def open_at(self, offset: int) -> Iterator[BinaryIO]:
        """The part cut to `offset` bytes and open for writing behind them; flushed to the disk at the end."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.path.open("r+b" if self.path.exists() else "wb") as stream:
                stream.truncate(offset)
                stream.seek(offset)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise self.disk_full() from error

    def disk_full(self) -> DiskFull:
        """The error for a disk without room, with what is kept."""
        return DiskFull(
            f"the disk is full; {human(self.size())} of {self.target.name} are kept: make room and run the same "
            "command again to continue"
        )

    def finish(self, size: int | None, sha256: str | None, job: Job, meter: Meter) -> None:
        """Verify length and hash, and give the file its final name. On a mismatch the part is deleted."""
        length = self.size()
        if size is not None and length != size:
            self.discard()
            raise WrongContent(f"{self.target.name}: {length} bytes arrived instead of {size}; nothing was kept")
        if sha256 is not None:
            found = hash_file(self.path, job, meter)
            if found != sha256:
                self.discard()
                raise WrongContent(
                    f"{self.target.name}: the sha256 is {found[:12]}… instead of {sha256[:12]}…; nothing was kept"
                )
        # Noted before the file gets its name: a note without a file does no harm, a file without one is never removed.
        facts = {"source": self.source, "size": length, "sha256": sha256}
        write_atomically(self.target.with_name(self.target.name + FETCHED), json.dumps(facts))
        self.path.replace(self.target)
        self._record.unlink(missing_ok=True)
        meter.at(length, "done")


def hash_file(path: Path, job: Job, meter: Meter) -> str:
    """The sha256 of a file in hex, its progress told to `meter`."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while chunk := stream.read(4 * CHUNK):
            job.check()
            digest.update(chunk)
            done += len(chunk)
            meter.at(done, "verifying")
    return digest.hexdigest()
