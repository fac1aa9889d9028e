"""What edits replaced, kept so that it can be brought back.

Each replaced file is one record in `state_dir()/undo`: `ID.json` says which file and edit, `ID.before` holds the bytes.
The records of one edit share its number, so that an edit of several files is undone as one. A record is kept before the
file is written: a crash in between leaves a record that has nothing to undo, which is passed over.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from localspec import paths
from localspec.assist.edit_file import CannotEdit, digest_of
from localspec.assist.writing import check, replace_file
from localspec.chat.visible import one_line

PER_FILE = 20
"""Steps back for one file."""
MAX_RECORDS = 200
MAX_BYTES = 64_000_000
"""All records together: eight of the largest files that can be edited."""


@dataclass(frozen=True, slots=True)
class Record:
    """A file that an edit replaced: `path` is its real path, the digests are of its content before and after."""

    id: str
    edit: str
    path: str
    before: str
    after: str


def folder() -> Path:
    return paths.state_dir() / "undo"


def new_edit() -> str:
    """A number for one edit, later ones sort later."""
    return f"{time.time_ns():020d}"


def keep(edit: str, path: Path, before: bytes, after: bytes) -> Record:
    """Note that `edit` is about to replace `before` in `path` by `after`. Raises OSError when it cannot be kept."""
    place = folder()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    real = path.resolve()
    number = f"{edit}-{len(list(place.glob(f'{edit}-*.json'))):04d}"
    record = Record(number, edit, str(real), digest_of(before), digest_of(after))
    try:
        _write(place / f"{number}.json", json.dumps(asdict(record)).encode())
        _write(place / f"{number}.before", before)
    except OSError:
        forget(record)
        raise
    _bound(place)
    return record


def records() -> list[Record]:
    """All records, oldest first; files that are no records count for nothing."""
    return list(_records(folder()))


def last(files: Sequence[Path] = ()) -> list[Record]:
    """What undoing would bring back: the last edit's records, or with `files` the last record of each of them. Records
    whose file already has its old content are left out. Raises `CannotEdit` when there is none."""
    known = [record for record in records() if not _has(Path(record.path), record.before)]
    if files:
        found = []
        for file in files:
            real = str(file.resolve())
            own = [record for record in known if record.path == real]
            if not own:
                raise CannotEdit(f"{one_line(str(file))}: there is no edit to undo")
            found.append(own[-1])
        return found
    if not known:
        raise CannotEdit("there is no edit to undo")
    return [record for record in known if record.edit == known[-1].edit]


def restore(record: Record, *, force: bool = False) -> None:
    """Bring back what the record's edit replaced, and forget the record.

    Raises `CannotEdit` when the file was changed since (unless `force`) or the kept bytes are gone or damaged, and
    `OSError` when the system refuses; the file is then as it was.
    """
    before, now = ready(record, force=force)
    replace_file(Path(record.path), now, before)
    forget(record)


def ready(record: Record, *, force: bool = False) -> tuple[bytes, str]:
    """The content that `restore` brings back and the digest of what it replaces; raises what `restore` would before
    anything is written."""
    path, name = Path(record.path), one_line(record.path)
    before = bytes_of(record)
    try:
        now = digest_of(path.read_bytes())
    except FileNotFoundError:
        raise CannotEdit(f"{name} is gone: {folder() / (record.id + '.before')} has its old content") from None
    if now != record.after and not force:
        raise CannotEdit(f"{name} was changed since it was edited: --force brings the old content back all the same")
    check(path, now)
    return before, now


def bytes_of(record: Record) -> bytes:
    """The content before the edit. Raises `CannotEdit` when it is gone or damaged."""
    try:
        before = (folder() / f"{record.id}.before").read_bytes()
    except OSError:
        before = b""
    if digest_of(before) != record.before:
        raise CannotEdit(f"what the edit replaced in {one_line(record.path)} is not kept any more")
    return before


def forget(record: Record) -> None:
    """Remove a record; that it is gone already is no fault."""
    for ending in ("json", "before"):
        with contextlib.suppress(OSError):
            (folder() / f"{record.id}.{ending}").unlink()


def _records(place: Path) -> Iterator[Record]:
    for file in sorted(place.glob("*.json")):
        try:
            found = Record(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue
        if found.id == file.stem:
            yield found


def _bound(place: Path) -> None:
    """Drop the oldest records beyond the bounds."""
    size = 0
    of_file: dict[str, int] = {}
    for count, record in enumerate(reversed(list(_records(place))), 1):
        with contextlib.suppress(OSError):
            size += (place / f"{record.id}.before").stat().st_size
        of_file[record.path] = of_file.get(record.path, 0) + 1
        if count > 1 and (size > MAX_BYTES or count > MAX_RECORDS or of_file[record.path] > PER_FILE):
            forget(record)


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _has(path: Path, digest: str) -> bool:
    try:
        return digest_of(path.read_bytes()) == digest
    except OSError:
        return False
