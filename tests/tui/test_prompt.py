"""The prompt: keys, pastes that keep their bytes, earlier questions, attached files, the editor."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Static

from localspec import paths
from localspec.chat.settings import Settings
from localspec.tui.pastes import Pastes, as_sent
from localspec.tui.recall import Recall
from localspec.tui.widgets.completions import candidates, mention_before
from tests.fake_engine import INFO
from tests.tui.helpers import Bench, until

PASTE = "".join(f"line {number}\t\r\n" for number in range(3000))


async def test_control_j_is_a_newline_and_enter_sends() -> None:
    """T9: Ctrl+J is a newline everywhere."""
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        await pilot.press("a", "ctrl+j", "b")
        assert bench.prompt.text == "a\nb"
        await pilot.press("enter")
        await until(pilot, lambda: bench.app.chat.desk.talk.turns)
        assert bench.app.chat.desk.talk.turns[0].text == "a\nb"


async def test_a_paste_never_sends_and_keeps_its_bytes() -> None:
    """T9: 3,000 lines with CRLF and tabs."""
    bench = Bench(info=replace(INFO, context=100_000))
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        bench.prompt.post_message(events.Paste(PASTE))
        await until(pilot, lambda: bench.prompt.text == "[paste 1: 3,000 lines]")
        await pilot.press("space", *"short")
        assert bench.engine.requests == []
        assert bench.prompt.exact == PASTE + " short"
        await pilot.press("enter")
        await until(pilot, lambda: bench.app.chat.desk.talk.turns)
        assert bench.app.chat.desk.talk.turns[0].text == PASTE + " short"


async def test_a_short_paste_stands_in_the_box() -> None:
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        bench.prompt.post_message(events.Paste("two\rlines"))
        await until(pilot, lambda: bench.prompt.text == "two\nlines")


@pytest.mark.parametrize("text", ["a\x1b]52;c;x\x07b", "a\r\nb\n", "a\x0cb", "a\u2028b", "\x9b2J"])
async def test_a_paste_that_could_steer_the_terminal_is_kept_behind_a_mark(text: str) -> None:
    """S5: shown as a mark; sent unchanged."""
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        bench.prompt.post_message(events.Paste(text))
        await until(pilot, lambda: bench.prompt.text.startswith("[paste 1:"))
        assert bench.prompt.exact == text


def test_marks_typed_by_a_person_stay() -> None:
    pastes = Pastes()
    assert pastes.shown("plain\n") == "plain\n"
    mark = pastes.shown("\r\n")
    assert pastes.restored(f"x {mark} [paste 9: 4 lines]") == "x \r\n [paste 9: 4 lines]"


def test_a_terminal_sends_newlines_as_carriage_returns() -> None:
    assert as_sent("a\rb") == "a\nb"
    assert as_sent("a\r\nb\rc") == "a\r\nb\rc"


async def test_the_arrow_keys_find_earlier_questions() -> None:
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "first\nquestion")
        await bench.ask(pilot, "second")
        await pilot.press(*"draft", "up")
        assert bench.prompt.text == "second"
        await pilot.press("up")
        assert bench.prompt.text == "first\nquestion"
        # The cursor is on the last line: up moves in the text before it leaves it.
        await pilot.press("up", "down", "down")
        assert bench.prompt.text == "second"
        await pilot.press("down")
        assert bench.prompt.text == "draft"
    assert (paths.state_dir() / "prompts.jsonl").stat().st_mode & 0o077 == 0


async def test_without_history_no_question_is_written_down() -> None:
    bench = Bench(settings=Settings(history=False))
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "secret")
        await pilot.press("up")
        assert bench.prompt.text == "secret"
    assert not (paths.state_dir() / "prompts.jsonl").exists()


class TestRecall:
    def test_a_new_program_finds_what_was_asked(self, tmp_path: Path) -> None:
        file = tmp_path / "prompts.jsonl"
        Recall(file).add("äöü\n[/x]")
        assert Recall(file).back("") == "äöü\n[/x]"

    def test_a_damaged_file_is_no_history(self, tmp_path: Path) -> None:
        file = tmp_path / "prompts.jsonl"
        file.write_bytes(b"\xff{not json")
        recall = Recall(file)
        assert recall.back("x") is None
        recall.add("still works")
        assert recall.back("") == "still works"

    def test_a_repeated_question_is_kept_once(self) -> None:
        recall = Recall(None)
        recall.add("a")
        recall.add("a")
        assert recall.back("") == "a"
        assert recall.back("") is None

    def test_it_does_not_grow_without_end(self, tmp_path: Path) -> None:
        file = tmp_path / "prompts.jsonl"
        file.write_text("".join(json.dumps(str(n)) + "\n" for n in range(1500)))
        assert Recall(file).back("") == "1499"
        assert len(file.read_text().splitlines()) == 500


class TestCompletions:
    @pytest.mark.parametrize(
        ("line", "mention"),
        [("see @src/ma", "src/ma"), ("@", ""), ("mail me@home", None), ("@a b", None), ('@"a b', '"a b'), ("", None)],
    )
    def test_what_is_being_mentioned(self, line: str, mention: str | None) -> None:
        assert mention_before(line) == mention

    def test_files_and_folders(self, tmp_path: Path) -> None:
        (tmp_path / "src").mkdir()
        for name in ("src/main.py", "src/mail.py", "src/other", "Makefile", ".hidden", "with blank.txt"):
            (tmp_path / name).touch()
        assert candidates("", tmp_path) == ["Makefile", "src/", '"with blank.txt"']
        assert candidates("ma", tmp_path) == ["Makefile"]
        assert candidates("src/ma", tmp_path) == ["src/mail.py", "src/main.py"]
        assert candidates(".h", tmp_path) == [".hidden"]
        assert candidates('"with', tmp_path) == ['"with blank.txt"']
        assert candidates("nowhere/x", tmp_path) == []

    async def test_tab_completes_and_the_size_is_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "data.txt").write_text("one two three")
        (tmp_path / "date.txt").write_bytes(b"\xff\xfe")
        bench = Bench()
        async with bench.app.run_test() as pilot:
            await bench.ready(pilot)
            await pilot.press(*"see", "space", "at", *"da")
            await pilot.press("down", "down", "tab")
            assert bench.prompt.text == "see @date.txt"
            await pilot.press("backspace", *"t", "backspace", "backspace", "backspace", "backspace", "backspace")
            bench.prompt.fill("see @data.txt")
            attached = bench.app.chat.query_one("#attached", Static)
            await until(pilot, lambda: "@data.txt 6 tokens" in str(attached.content))
            await pilot.press("enter")
            await until(pilot, lambda: bench.app.chat.desk.talk.turns)
            question = bench.app.chat.desk.talk.turns[0].text
            assert question.startswith("see @data.txt\n\n")
            assert question.endswith("```txt\none two three\n```")

    async def test_a_file_that_is_no_text_is_refused_before_sending(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a[b].bin").write_bytes(b"\xff\xfe")
        bench = Bench()
        async with bench.app.run_test() as pilot:
            await bench.type(pilot, "see @a[b].bin")
            await until(pilot, lambda: "@a[b].bin is not UTF-8 text" in bench.notice)
            assert bench.prompt.text == "see @a[b].bin"
            assert bench.engine.requests == []


@pytest.mark.skipif(sys.platform == "win32", reason="the driver cannot be suspended there")
class TestEditor:
    async def test_the_text_comes_back_byte_for_byte(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = tmp_path / "editor.py"
        script.write_text(
            "import sys, pathlib\np = pathlib.Path(sys.argv[1])\np.write_bytes(p.read_bytes() + b'\\r\\nadded')"
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
        monkeypatch.delenv("VISUAL", raising=False)
        bench = Bench()
        async with bench.app.run_test() as pilot:
            await bench.ready(pilot)
            monkeypatch.setattr(type(bench.app._driver), "can_suspend", True, raising=False)
            bench.prompt.fill("begun")
            await pilot.press("ctrl+o")
            await until(pilot, lambda: bench.prompt.exact == "begun\r\nadded")
        assert list(Path(os.environ.get("TMPDIR", "/tmp")).glob("localspec-*.md")) == []

    async def test_no_editor_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("EDITOR", raising=False)
        monkeypatch.delenv("VISUAL", raising=False)
        bench = Bench()
        async with bench.app.run_test() as pilot:
            await bench.ready(pilot)
            await pilot.press("ctrl+o")
            await until(pilot, lambda: "EDITOR" in bench.notice)
