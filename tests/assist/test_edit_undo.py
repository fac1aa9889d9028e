"""Undo: what an edit replaced comes back, never over a later change, within bounds."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from localspec.assist import undo
from localspec.assist.edit_file import CannotEdit, digest_of
from localspec.assist.writing import replace_file


def edit(number: str, *changes: tuple[Path, bytes]) -> None:
    """Replace files as one edit does it."""
    for path, new in changes:
        before = path.read_bytes()
        undo.keep(number, path, before, new)
        replace_file(path, digest_of(before), new)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_bytes(b"one\r\n")
    two.write_bytes(b"two")
    return one, two


def back(*files: Path, force: bool = False) -> None:
    for record in undo.last(files):
        undo.restore(record, force=force)


def test_the_last_edit_comes_back_as_one(files: tuple[Path, Path]) -> None:
    one, two = files
    edit("1", (one, b"1"), (two, b"2"))
    edit("2", (one, b"11"), (two, b"22"))
    back()
    assert (one.read_bytes(), two.read_bytes()) == (b"1", b"2")
    back()
    assert (one.read_bytes(), two.read_bytes()) == (b"one\r\n", b"two")
    with pytest.raises(CannotEdit, match="no edit to undo"):
        undo.last()


def test_one_file_alone(files: tuple[Path, Path], tmp_path: Path) -> None:
    one, two = files
    edit("1", (one, b"1"))
    edit("2", (two, b"2"))
    (tmp_path / "link").symlink_to(one)
    back(tmp_path / "link")
    assert (one.read_bytes(), two.read_bytes()) == (b"one\r\n", b"2")
    with pytest.raises(CannotEdit, match=r"one\.py: there is no edit"):
        undo.last([one])


def test_a_later_change_is_not_overwritten_unless_forced(files: tuple[Path, Path]) -> None:
    one, _ = files
    edit("1", (one, b"1"))
    one.write_bytes(b"mine")
    with pytest.raises(CannotEdit, match="changed since"):
        back()
    assert one.read_bytes() == b"mine"
    back(force=True)
    assert one.read_bytes() == b"one\r\n"


def test_an_edit_that_was_never_written_is_passed_over(files: tuple[Path, Path]) -> None:
    """A crash between keeping and writing."""
    one, _ = files
    edit("1", (one, b"1"))
    undo.keep("2", one, b"1", b"never")
    back()
    assert one.read_bytes() == b"one\r\n"


def test_a_file_that_is_gone_is_told_with_the_place_of_its_content(files: tuple[Path, Path]) -> None:
    one, _ = files
    edit("1", (one, b"1"))
    one.unlink()
    with pytest.raises(CannotEdit) as error:
        back()
    place = str(error.value).partition(": ")[2].removesuffix(" has its old content")
    assert Path(place).read_bytes() == b"one\r\n"


def test_damaged_records_do_no_harm(files: tuple[Path, Path]) -> None:
    one, _ = files
    edit("1", (one, b"1"))
    (undo.folder() / "2.json").write_text("{")
    (undo.folder() / "3.json").write_text(json.dumps({"id": "3"}))
    (record,) = undo.last()
    (undo.folder() / f"{record.id}.before").write_bytes(b"other")
    with pytest.raises(CannotEdit, match="not kept any more"):
        back()
    assert one.read_bytes() == b"1"


def test_only_so_much_is_kept(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = files
    monkeypatch.setattr(undo, "PER_FILE", 3)
    for number in range(6):
        edit(f"{number:03d}", (one, b"%d" % number))
    edit("9", (two, b"x"))
    assert len(undo.records()) == 4
    monkeypatch.setattr(undo, "MAX_BYTES", 2_000)
    edit("91", (two, b"y" * 1_500))
    edit("92", (two, b"z" * 1_500))
    edit("93", (two, b"w"))
    kept = [(undo.folder() / f"{record.id}.before").stat().st_size for record in undo.records()]
    assert sum(kept) <= 2_000
    assert kept[-1] == 1_500
    assert len(list(undo.folder().iterdir())) == 2 * len(kept)
    back()
    assert two.read_bytes() == b"z" * 1_500


def test_a_full_disk_keeps_no_half_record(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = files
    edit("1", (one, b"1"))
    before = sorted(undo.folder().iterdir())
    synced: list[int] = []

    def full(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(undo.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        undo.keep("2", one, b"1", b"2")
    assert sorted(undo.folder().iterdir()) == before


def test_nobody_else_reads_what_was_replaced(files: tuple[Path, Path]) -> None:
    one, _ = files
    edit("1", (one, b"1"))
    assert stat.S_IMODE(undo.folder().stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in undo.folder().iterdir()} == {0o600}
