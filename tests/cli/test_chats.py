"""`localspec chats`: the history from the shell. S5, T2."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec import paths
from localspec.chat.history import FILE_NAME, History
from localspec.cli.errors import FAILED, INTERRUPTED, USAGE
from tests.chat.chats import TEXT, chat_of
from tests.cli.streams import CommandLine

NASTY = "[red]\x1b]52;c;x\x07[/] title"


@pytest.fixture
def history() -> Iterator[History]:
    opened = History.open()
    yield opened
    opened.close()


@pytest.fixture
def two(history: History) -> tuple[int, int]:
    return chat_of(history, "Sort a list"), chat_of(history, "Merge lists", "again", title=NASTY)


def test_the_list_has_the_latest_first(cli: CommandLine, two: tuple[int, int]) -> None:
    outcome = cli.run("chats", "list")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert lines[1].split()[0] == str(two[1])
    assert "[red]␛]52;c;x␇[/] title" in lines[1]
    assert "Sort a list" in lines[2]
    found = json.loads(cli.run("chats", "list", "--json", "--limit", "1").out)
    assert [(chat["id"], chat["messages"], chat["target"]) for chat in found] == [(two[1], 4, "starter")]


def test_an_empty_history_says_what_to_do(cli: CommandLine) -> None:
    outcome = cli.run("chats", "list")
    assert (outcome.code, outcome.out) == (0, "")
    assert "localspec run" in outcome.err
    assert cli.run("chats", "list", "--json").out == "[]\n"
    assert cli.run("chats", "show").code == FAILED


def test_search(cli: CommandLine, two: tuple[int, int]) -> None:
    outcome = cli.run("chats", "search", "LISTS")
    assert outcome.code == 0
    assert "Merge lists" in outcome.out
    assert "Sort" not in outcome.out
    (found,) = json.loads(cli.run("chats", "search", "--json", '"Merge lists"').out)
    assert found["id"] == two[1]
    start, end = found["hit"]["spans"][0]
    assert found["hit"]["snippet"][start:end] == "Merge lists"
    nothing = cli.run("chats", "search", "zebra")
    assert (nothing.code, nothing.out) == (0, "")
    assert "zebra" in nothing.err
    assert cli.run("chats", "search", "--json", "zebra").out == "[]\n"


def test_show_in_colours_on_a_terminal(cli: CommandLine, two: tuple[int, int]) -> None:
    outcome = cli.run("chats", "show", str(two[0]), terminal=True)
    assert "\x1b[1;32mmerge(\x1b[0m" in outcome.out.replace("\x1b[0m\x1b[1;32m", "")
    assert "accepted (lookup)" in outcome.out
    assert "␛[2J[/red]<b>&" in outcome.out
    assert "\x1b[2J" not in outcome.out
    assert "tokens/s" in outcome.out


def test_show_in_a_pipe_and_with_marks(cli: CommandLine, two: tuple[int, int]) -> None:
    plain = cli.run("chats", "show", str(two[0])).out
    assert TEXT in plain
    assert "\x1b[1" not in plain
    assert "def ‹merge(›⟨a⟩«, b»⟦):⟧" in cli.run("chats", "show", str(two[0]), "--color", "marks").out
    assert "title" in cli.run("chats", "show").out, "the latest"


def test_show_as_json_is_the_export(cli: CommandLine, two: tuple[int, int]) -> None:
    assert json.loads(cli.run("chats", "show", "--json").out) == json.loads(
        cli.run("chats", "export", "--format", "json").out
    )


@pytest.mark.parametrize(
    ("name", "begins"), [("c.md", "# Sort a list"), ("c.json", "{"), ("c.HTML", "<!doctype html>"), ("c.txt", "# Sort")]
)
def test_export_goes_by_the_name(
    cli: CommandLine, two: tuple[int, int], tmp_path: Path, name: str, begins: str
) -> None:
    file = tmp_path / name
    outcome = cli.run("chats", "export", str(two[0]), "-o", str(file))
    assert (outcome.code, outcome.out) == (0, "")
    assert file.read_text(encoding="utf-8").startswith(begins)
    again = cli.run("chats", "export", str(two[0]), "-o", str(file))
    assert again.code == FAILED
    assert "--force" in again.err
    assert cli.run("chats", "export", str(two[0]), "-o", str(file), "--force").code == 0


def test_export_and_import_round_trip(cli: CommandLine, two: tuple[int, int], tmp_path: Path, history: History) -> None:
    file = tmp_path / "chat.json"
    cli.run("chats", "export", str(two[1]), "-o", str(file))
    assert cli.run("chats", "import", str(file)).code == 0
    assert [chat.messages for chat in history.chats()] == [4, 4, 2]
    assert cli.run("chats", "export", "--format", "json").out == file.read_text(encoding="utf-8")
    file.write_bytes(b"\xff")
    assert "UTF-8" in cli.run("chats", "import", str(file)).err
    file.write_text("{}")
    wrong = cli.run("chats", "import", str(file))
    assert (wrong.code, wrong.err.count("\n")) == (FAILED, 1)
    assert "none.json" in cli.run("chats", "import", str(tmp_path / "none.json")).err


def test_rename(cli: CommandLine, two: tuple[int, int], history: History) -> None:
    assert cli.run("chats", "rename", str(two[0]), "Better\nname").code == 0
    assert history.chat(two[0]).title == "Better name"
    assert cli.run("chats", "rename", str(two[0]), " ").code == FAILED


def test_delete_takes_the_caches_along(cli: CommandLine, two: tuple[int, int], history: History) -> None:
    cache = paths.cache_dir() / "kv" / f"{two[0]}.bin"
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"x")
    assert cli.run("chats", "delete", "--yes", *map(str, two)).code == 0
    assert history.chats() == []
    assert not cache.exists()


def test_delete_asks(cli: CommandLine, two: tuple[int, int], history: History) -> None:
    asked = cli.run("chats", "delete", str(two[0]), stdin=b"y\n")
    assert (asked.code, "--yes" in asked.err) == (FAILED, True)
    assert len(history.chats()) == 2


@pytest.mark.parametrize("answer", ["y", "n"])
def test_delete_on_a_keyboard(cli: CommandLine, two: tuple[int, int], history: History, answer: str) -> None:
    cli.monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: answer)
    outcome = cli.run("chats", "delete", str(two[0]))
    assert outcome.code == (0 if answer == "y" else INTERRUPTED)
    assert len(history.chats()) == (1 if answer == "y" else 2)


@pytest.mark.parametrize(
    "arguments",
    [("show", "9"), ("export", "9"), ("rename", "9", "x"), ("delete", "9", "--yes"), ("show", "9", "--json")],
)
def test_a_chat_that_is_not_there(cli: CommandLine, two: tuple[int, int], arguments: tuple[str, ...]) -> None:
    outcome = cli.run("chats", *arguments)
    assert (outcome.code, outcome.out) == (FAILED, "")
    assert outcome.err == "localspec: there is no chat 9 in the history\n"


def test_wrong_usage(cli: CommandLine) -> None:
    assert cli.run("chats", "search").code == USAGE
    assert cli.run("chats", "show", "first").code == USAGE
    assert cli.run("chats", "list", "--limit", "0").code == USAGE


def test_a_history_that_cannot_be_used_is_one_line(cli: CommandLine) -> None:
    file = paths.data_dir() / FILE_NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not a database" * 100)
    outcome = cli.run("chats", "list")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (FAILED, "", 1)
    assert "damaged" in outcome.err
