"""What is said of changes that break a file, and taking back an edit of several, as the command line makes them."""

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Static

from localspec.assist import undo
from localspec.assist.edit_file import CannotEdit
from localspec.tui.proposal import undo_last
from tests.fake_engine import INFO
from tests.tui.edits import FIRST, NEW, answers, proposed, write
from tests.tui.helpers import Bench, until


async def test_changes_that_break_python_say_so_and_can_be_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path)
    broken = NEW.replace("titles(self)", "titles(self")
    bench = Bench(answers(broken), info=replace(INFO, context=4096))
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        state = bench.app.screen.query_one("#changes-state", Static)
        assert "shelf.py would be no Python any more (line 19" in str(state.content)
        assert state.has_class("fault")
        await pilot.press("down", "space")
        await until(pilot, lambda: "no Python" not in str(state.content))
        assert bench.app.chat.desk.assist.proposal.text == FIRST
        await pilot.press("space", "w")
        await until(pilot, lambda: "2 changes written" in str(state.content))
        assert file.read_text() == broken


async def test_other_files_are_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("x = 1\n")
    bench = Bench(answers("x = (1\n"), info=replace(INFO, context=4096))
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench, "/edit notes.txt x")
        assert "w writes what is accepted" in str(bench.app.screen.query_one("#changes-state", Static).content)


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
