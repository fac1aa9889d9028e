"""`localspec edit FILE...`: all files are edited before the first is shown, and shown before the first is written."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.assist import answer_checks, diff, edit_file, undo
from localspec.assist import edit as edits
from localspec.assist.diff import Hunk
from localspec.assist.diff_names import name_for
from localspec.assist.edit_file import CannotEdit, EditFile
from localspec.assist.edit_job import EditResult
from localspec.assist.writing import check, replace_file
from localspec.cli import edit_answers, jsonlines, settings
from localspec.cli.edit_answers import Interrupted
from localspec.cli.edit_show import ask, can_ask, show_diff, write_bytes
from localspec.cli.errors import INTERRUPTED, Failure, reason_of
from localspec.cli.terminal import is_terminal, one_line, say


@dataclass(frozen=True, slots=True)
class Change:
    """A file and its new text; `problem` is what is wrong with it as far as a program can see."""

    file: EditFile
    path: Path
    text: str
    hunks: list[Hunk]
    prose: str
    problem: str | None

    @classmethod
    def of(cls, file: EditFile, results: Sequence[EditResult]) -> "Change":
        assert file.path is not None
        text = edits.edited(file, results)
        problem = answer_checks.syntax_problem(file.text, text, file.suffix)
        prose = "\n\n".join(result.prose for result in results if result.prose)
        return cls(file, file.path, text, diff.hunks(file.text, text), prose, problem)

    @property
    def name(self) -> str:
        return name_for(self.path)


def edit(paths: Sequence[Path], instruction: str, values: dict[str, Any]) -> int:
    """Edits the files; returns the exit code. Raises `Failure`, `CannotEdit`, and the engine's errors."""
    files = _read(paths, to_write=not (values["only_diff"] or values["to_stdout"]))
    shown = not (values["to_stdout"] and is_terminal(sys.stdout))
    try:
        results = edit_answers.results(files, instruction, values, shown=shown)
    except Interrupted:
        say("interrupted: nothing was written")
        return INTERRUPTED
    changes = [Change.of(file, of_file) for file, of_file in zip(files, results, strict=True)]
    if values["to_stdout"] and not values["as_json"]:
        for change in changes:
            _say_problem(change)
            write_bytes(change.file.encoded(change.text))
        return 0
    changed = [change for change in changes if change.hunks]
    written = False
    if values["as_json"]:
        written = values["apply"] and bool(changed)
        if written:
            _write(changed)
        for change in changes:
            jsonlines.emit(_line(change, applied=written and bool(change.hunks)))
        return 0
    if not changed:
        say("nothing to change")
        return 0
    color = settings.in_force(values).color
    for change in changed:
        show_diff(change.name, change.hunks, color)
        _say_problem(change)
    if values["only_diff"]:
        return 0
    if values["apply"]:
        _write(changed)
    elif not can_ask():
        say("nothing was written: --apply writes")
    elif ask(f"Write {edit_answers.names_of([change.file.name for change in changed])}?"):
        _write(changed)
    else:
        say("nothing was written")
    return 0


def _read(paths: Sequence[Path], *, to_write: bool) -> list[EditFile]:
    """The files, each once by whatever links it is named; refused now when it could not be written later."""
    files = list({path.resolve(): edit_file.read(path) for path in paths}.values())
    for file in files:
        if to_write and file.path is not None:
            check(file.path, file.digest)
    return files


def _write(changes: Sequence[Change]) -> None:
    """Writes all files or, as far as can be known before, none."""
    broken = [change for change in changes if change.problem]
    if broken:
        raise Failure(f"{broken[0].file.name} would be no Python any more ({broken[0].problem}): nothing was written")
    news = [(change, change.file.encoded(change.text)) for change in changes]
    for change, _ in news:
        check(change.path, change.file.digest)
    number = undo.new_edit()
    written: list[str] = []
    for change, data in news:
        record = _keep(number, change, data)
        try:
            replace_file(change.path, change.file.digest, data)
        except (CannotEdit, OSError) as error:
            if record is not None:
                undo.forget(record)
            reason = str(error) if isinstance(error, CannotEdit) else f"{change.file.name}: {reason_of(error)}"
            before = f" (written before: {edit_answers.names_of(written)})" if written else ""
            raise Failure(f"{reason}{before}") from None
        written.append(change.file.name)
        added, removed = sum(h.added for h in change.hunks), sum(h.removed for h in change.hunks)
        say(f"{change.file.name} is written: +{added} -{removed} lines (`localspec edit --undo` takes it back)")


def _keep(number: str, change: Change, data: bytes) -> undo.Record | None:
    """Keeps what is about to be replaced; that this fails is told, and costs the undo alone."""
    try:
        return undo.keep(number, change.path, change.file.data, data)
    except OSError as error:
        say(f"this edit cannot be undone by --undo: {reason_of(error)}")
        return None


def _say_problem(change: Change) -> None:
    if change.problem:
        say(f"{change.file.name} would be no Python any more ({change.problem})")


def _line(change: Change, *, applied: bool) -> dict[str, Any]:
    return {
        "type": "edit",
        "file": str(change.path),
        "applied": applied,
        "diff": diff.unified(change.name, change.hunks),
        "prose": change.prose,
        "problem": change.problem and one_line(change.problem),
    }
