"""What is a command in the prompt, and what is a question."""

from pathlib import Path

import pytest

from localspec.tui.commands import Diff, Edit, Undo, parse
from localspec.tui.widgets.completions import completing


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/edit", Edit()),
        ("/edit a.py", Edit("a.py")),
        ("/edit a.py:3-9 add\nhints ", Edit("a.py", "3-9", "add\nhints")),
        ("  /edit a.py:3- x", Edit("a.py", "3-", "x")),
        ('/edit @"a b.py":3 x', Edit("a b.py", "3", "x")),
        ("/edit @a.py x", Edit("a.py", None, "x")),
        ("/edit a:b.py y", Edit("a:b.py", None, "y")),
        ("/undo", Undo()),
        ('/undo "a b.py"', Undo("a b.py")),
        ("/diff", Diff()),
        ("/diff of what?", None),
        ("/editor", None),
        ("/etc/passwd: what is it?", None),
        ("why /edit a.py x", None),
    ],
)
def test_what_was_typed(text: str, command: object) -> None:
    assert parse(text) == command


@pytest.mark.parametrize("command", [Edit("a.py", "3-9", "x y"), Edit("a b.py", None, "x"), Edit("a:3", None, "x")])
def test_a_command_is_written_as_it_can_be_read(command: Edit) -> None:
    assert parse(command.written()) == command


def test_only_a_whole_edit_is_complete() -> None:
    assert Edit("a", None, "x").complete
    assert not Edit("a").complete
    assert not Edit("", None, "x").complete


def test_commands_and_their_files_are_completed_on_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "shelf.py").touch()
    (tmp_path / "two words.py").touch()
    assert completing("/", tmp_path, first=True) == ["/edit ", "/diff", "/undo"]
    assert completing("/ed", tmp_path, first=True) == ["/edit "]
    assert completing("/undo", tmp_path, first=True) == []
    assert completing("/edit ", tmp_path, first=True) == ["shelf.py", '"two words.py"']
    assert completing("/edit sh", tmp_path, first=True) == ["shelf.py"]
    assert completing('/edit "tw', tmp_path, first=True) == ['"two words.py"']
    assert completing("/edit shelf.py:3 ad", tmp_path, first=True) == []
    assert completing("/edit shelf.py like @tw", tmp_path, first=True) == ['"two words.py"']
    assert completing("/edit sh", tmp_path, first=False) == []
