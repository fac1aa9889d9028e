"""Taking back an edit of several files, of which the app only ever makes one but the command line many."""

from pathlib import Path

import pytest

from localspec.assist import undo
from localspec.assist.edit_file import CannotEdit
from localspec.tui.proposal import undo_last


@pytest.mark.parametrize("damage", ["read-only", "not kept"])
def test_of_two_files_one_that_cannot_come_back_leaves_both(tmp_path: Path, damage: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    edit = undo.new_edit()
    for file in (one, two):
        file.write_bytes(b"new")
        record = undo.keep(edit, file, b"old", b"new")
    if damage == "read-only":
        two.chmod(0o444)
    else:
        (undo.folder() / f"{record.id}.before").unlink()
    with pytest.raises(CannotEdit):
        undo_last(None)
    assert (one.read_bytes(), two.read_bytes()) == (b"new", b"new")
    if damage == "read-only":
        two.chmod(0o644)
        assert sorted(undo_last(None)) == [one, two]
        assert (one.read_bytes(), two.read_bytes()) == (b"old", b"old")
