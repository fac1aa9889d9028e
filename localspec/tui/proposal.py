"""The changes a model proposes for a file: which of them are accepted, written, and taken back. No screen here.

Methods that touch the disk are for threads.
"""

from collections.abc import Sequence
from pathlib import Path

from localspec.assist import answer_checks, diff, edit, undo
from localspec.assist.diff import Hunk
from localspec.assist.edit_file import CannotEdit, EditFile, digest_of
from localspec.assist.edit_job import EditResult
from localspec.assist.writing import replace_file
from localspec.chat.visible import one_line

CONTEXT = 1
"""Unchanged lines around a change. With more of them neighbouring changes grow together, and could be accepted only as
one."""

CHECKED = 100_000
"""Characters of a file up to which it is parsed after every key that accepts or leaves a change."""


class ChangedSince(CannotEdit):
    """The file that an edit is to be taken back from was changed after it."""


class Proposal:
    """`hunks` turn `file` into what the answer says; `chosen` are the numbers of those that are accepted, all at first.
    `written` is how many changes stand in the file now, None while it is as it was."""

    def __init__(self, file: EditFile, hunks: Sequence[Hunk]) -> None:
        self.file = file
        self.hunks = list(hunks)
        self.chosen = set(range(len(self.hunks)))
        self.written: int | None = None

    @classmethod
    def of(cls, file: EditFile, results: Sequence[EditResult]) -> "Proposal":
        """What answers to all the questions about `file` come to. Raises `CannotEdit`."""
        return cls(file, diff.hunks(file.text, edit.edited(file, results), CONTEXT))

    def toggle(self, number: int) -> None:
        """Accepts a change, or does not."""
        self.chosen ^= {number}

    def choose(self, *, everything: bool) -> None:
        """Accepts all changes, or none."""
        self.chosen = set(range(len(self.hunks))) if everything else set()

    @property
    def text(self) -> str:
        """The file's text with the accepted changes."""
        return diff.apply(self.file.text, [self.hunks[number] for number in sorted(self.chosen)])

    @property
    def problem(self) -> str | None:
        """Why the accepted changes, which may need each other, make Python into something else; None when they do not,
        or the file is no Python. Very large files are not looked at: keys would wait."""
        if len(self.file.text) > CHECKED or not self.chosen:
            return None
        return answer_checks.syntax_problem(self.file.text, self.text, self.file.suffix)

    def write(self) -> None:
        """The accepted changes into the file, and what they replace where `undo` finds it.

        Raises `CannotEdit` when the file is not what it was when it was read, or may not be written, and `OSError`; the
        file is then as it was.
        """
        path, new = self._path, self.file.encoded(self.text)
        undo.keep(undo.new_edit(), path, self.file.data, new)
        replace_file(path, self.file.digest, new)
        self.written = len(self.chosen)

    def undo(self) -> None:
        """Brings the file's old content back. Raises `CannotEdit` when the file was changed since, and `OSError`."""
        (record,) = undo.last([self._path])
        undo.restore(record)
        self.written = None

    def undone(self, files: Sequence[Path]) -> None:
        """What was written into these files was taken back."""
        if self._path.resolve() in files:
            self.written = None

    @property
    def _path(self) -> Path:
        assert self.file.path is not None
        return self.file.path


def undo_last(file: Path | None, *, force: bool = False) -> list[Path]:
    """Brings back what the last edit replaced (of `file`, None: of all); returns the files.

    Raises `ChangedSince` when a file was changed after the edit, unless `force`, `CannotEdit` and `OSError`.
    """
    records = undo.last([file] if file is not None else [])
    for record in records:
        if not force and _changed_since(record):
            raise ChangedSince(f"{one_line(record.path)} was changed since it was edited")
        undo.ready(record, force=force)
    for record in records:
        undo.restore(record, force=force)
    return [Path(record.path) for record in records]


def _changed_since(record: undo.Record) -> bool:
    try:
        return digest_of(Path(record.path).read_bytes()) != record.after
    except OSError:
        # What is wrong with the file is said when it is written.
        return False
