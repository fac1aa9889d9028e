"""`localspec edit --undo`: what the last edit replaced comes back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from localspec.assist import undo as records
from localspec.cli import jsonlines
from localspec.cli.terminal import one_line, say


def undo(files: Sequence[Path], values: dict[str, Any]) -> int:
    """Brings back the last edit, or the last one of each of `files`. Raises `CannotEdit` and `OSError`; then, as far as
    can be known before, nothing is changed."""
    found = records.last(files)
    for record in found:
        records.ready(record, force=values["force"])
    for record in found:
        records.restore(record, force=values["force"])
        if values["as_json"]:
            jsonlines.emit({"type": "undo", "file": record.path})
        else:
            say(f"{one_line(record.path)} is as it was before the edit")
    return 0
