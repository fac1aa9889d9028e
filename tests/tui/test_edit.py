"""Code-assist in the app: asking for an edit, accepting changes one by one, writing, taking back, refusing."""

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input, Static

from localspec.chat.history import History
from localspec.chat.settings import Settings
from localspec.engine.events import Source
from localspec.tui.screens.changes import ChangesScreen
from localspec.tui.screens.dialogs import ConfirmScreen
from localspec.tui.screens.edit_form import EditFormScreen
from localspec.tui.widgets.tokenpanel import TokenPanel
from tests.fake_engine import INFO, Say, Script, Wait, plain
from tests.tui.edits import FIRST, NEW, OLD, answers, fenced, proposed, script, write
from tests.tui.helpers import Bench, until

WIDE = replace(INFO, context=4096)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def state(bench: Bench) -> str:
    """What the changes' screen says."""
    return str(bench.app.screen.query_one("#changes-state", Static).content)


async def test_an_edit_streams_is_shown_as_changes_and_written(here: Path) -> None:
    file = write(here)
    file.chmod(0o640)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(120, 40)) as pilot:
        view = await proposed(pilot, bench)
        request = bench.engine.requests[-1]
        assert request.sampling.temperature == 0
        assert [(source.name, source.first_line) for source in request.sources] == [("shelf.py", 1)]
        assert "add type hints" in "".join(segment.text for segment in request.prompt)
        assert "[x] lines 3-8  +2 -2" in view.text
        assert "7     -     def __init__(self, name, days=21):" in view.text
        assert "19  +     def titles(self) -> list[str]:" in view.text
        assert file.read_text() == OLD
        await pilot.press("w")
        await until(pilot, lambda: "2 changes written into shelf.py" in state(bench))
        assert file.read_text() == NEW
        assert file.stat().st_mode & 0o777 == 0o640
        await pilot.press("escape")
        await until(pilot, lambda: "/undo takes that back" in bench.notice)
        assert [turn.text for turn in bench.app.chat.desk.talk.turns] == ["/edit shelf.py add type hints", fenced(NEW)]
        assert bench.prompt.text == ""


async def test_one_change_is_accepted_and_the_other_left(here: Path) -> None:
    file = write(here)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        view = await proposed(pilot, bench)
        await pilot.press("down", "space")
        assert "[ ] lines 18-20  +1 -1" in view.text
        await pilot.press("w")
        await until(pilot, lambda: "1 change written" in state(bench))
        assert file.read_text() == FIRST
        await pilot.press("w")
        await until(pilot, lambda: "written already" in state(bench))
        await pilot.press("u")
        await until(pilot, lambda: "w writes" in state(bench))
        assert file.read_text() == OLD
        await pilot.press("n", "w")
        await until(pilot, lambda: "No change is accepted" in state(bench))
        assert file.read_text() == OLD
        await pilot.press("a", "w")
        await until(pilot, lambda: "2 changes written" in state(bench))
        assert file.read_text() == NEW


async def test_escape_writes_nothing_and_the_changes_can_be_seen_again(here: Path) -> None:
    file = write(here)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        await pilot.press("space", "escape")
        await until(pilot, lambda: "shelf.py is as it was" in bench.notice)
        assert file.read_text() == OLD
        view = await proposed(pilot, bench, "/diff")
        assert "[ ] lines 3-8" in view.text
        assert len(bench.engine.requests) == 1


async def test_undo_brings_the_old_text_back(here: Path) -> None:
    file = write(here)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.type(pilot, "/undo")
        await until(pilot, lambda: "there is no edit to undo" in bench.notice)
        await proposed(pilot, bench)
        await pilot.press("w")
        await until(pilot, lambda: file.read_text() == NEW)
        await until(pilot, lambda: "written" in state(bench))
        await pilot.press("escape")
        await bench.type(pilot, "/undo")
        await until(pilot, lambda: "as before the edit" in bench.notice)
        assert file.read_text() == OLD
        assert bench.prompt.text == ""


async def test_undoing_another_files_edit_leaves_this_one_written(here: Path) -> None:
    write(here)
    (here / "other.py").write_text(OLD)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        for name in ("other.py", "shelf.py"):
            await proposed(pilot, bench, f"/edit {name} add type hints")
            await pilot.press("w")
            await until(pilot, lambda: "written" in state(bench))
            await pilot.press("escape")
            await until(pilot, lambda: bench.app.screen is bench.app.chat)
        await bench.type(pilot, "/undo other.py")
        await until(pilot, lambda: "other.py is as before the edit" in bench.notice)
        assert ((here / "other.py").read_text(), (here / "shelf.py").read_text()) == (OLD, NEW)
        assert bench.app.chat.desk.assist.proposal.written == 2
        await bench.type(pilot, "/undo")
        await until(pilot, lambda: "shelf.py is as before the edit" in bench.notice)
        assert (here / "shelf.py").read_text() == OLD
        assert bench.app.chat.desk.assist.proposal.written is None


async def test_the_changes_stay_while_they_are_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving meanwhile would tell that nothing was written."""
    file = write(here)
    begun, go_on = threading.Event(), threading.Event()
    real = os.fsync

    def slow(number: int) -> None:
        begun.set()
        assert go_on.wait(20)
        real(number)

    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        monkeypatch.setattr(os, "fsync", slow)
        await pilot.press("w")
        await until(pilot, begun.is_set)
        await pilot.press("escape")
        assert isinstance(bench.app.screen, ChangesScreen)
        go_on.set()
        await until(pilot, lambda: "2 changes written" in state(bench))
        await pilot.press("escape")
        await until(pilot, lambda: "2 of 2 changes written" in bench.notice)
        assert file.read_text() == NEW


async def test_undo_asks_before_it_takes_back_what_came_after(here: Path) -> None:
    file = write(here)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        await pilot.press("w")
        await until(pilot, lambda: "written" in state(bench))
        file.write_text(NEW + "# mine\n")
        await pilot.press("u")
        await until(pilot, lambda: "was changed since it was edited" in state(bench))
        await pilot.press("escape")
        await bench.type(pilot, "/undo shelf.py")
        await until(pilot, lambda: isinstance(bench.app.screen, ConfirmScreen))
        await pilot.press("escape")
        await until(pilot, lambda: bench.app.screen is bench.app.chat)
        assert file.read_text() == NEW + "# mine\n"
        await bench.type(pilot, "/undo shelf.py")
        await until(pilot, lambda: isinstance(bench.app.screen, ConfirmScreen))
        await pilot.click("#yes")
        await until(pilot, lambda: "as before the edit" in bench.notice)
        assert file.read_text() == OLD


async def test_a_file_that_changed_meanwhile_is_left_alone(here: Path) -> None:
    file = write(here)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        file.write_text("somebody else's\n")
        await pilot.press("w")
        await until(pilot, lambda: "changed by somebody else meanwhile: nothing was written" in state(bench))
        assert file.read_text() == "somebody else's\n"


async def test_a_file_that_cannot_be_written_is_said_and_left_whole(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only file, and a full disk."""
    file = write(here)
    bench = Bench(answers(NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        file.chmod(0o444)
        await pilot.press("w")
        await until(pilot, lambda: "shelf.py is read-only" in state(bench))
        file.chmod(0o644)

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            await pilot.press("w")
            await until(pilot, lambda: "No space left on device" in state(bench))
        assert file.read_text() == OLD
        assert sorted(path.name for path in here.iterdir()) == ["shelf.py"]
        await pilot.press("w")
        await until(pilot, lambda: "2 changes written" in state(bench))


REFUSED = [
    (Script(plain("I would rather not.")), "has no code block"),
    (Script(plain("```py\n", "x = 1\n")), "has no end"),
    (script(fenced(NEW[:200]), "max_tokens"), "was cut at"),
    (script(fenced(OLD[:260] + "    # ... rest of the class unchanged\n")), "leaves text out"),
    (script(fenced(OLD)), "nothing to change"),
]


@pytest.mark.parametrize(("answer", "words"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
async def test_an_answer_that_cannot_be_used_says_why(here: Path, answer: Script, words: str) -> None:
    file = write(here)
    bench = Bench([answer], info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.type(pilot, "/edit shelf.py add type hints")
        await until(pilot, lambda: words in bench.notice)
        assert bench.app.screen is bench.app.chat
        assert file.read_text() == OLD
        assert not bench.app.chat.desk.assist.running


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/edit gone.py do it", "gone.py: no such file"),
        ("/edit shelf.py:90-99 do it", "there are no lines 90-99"),
        ("/edit odd.bin do it", "odd.bin is binary"),
        ("/edit shelf.py use @odd.bin", "@odd.bin is not UTF-8"),
    ],
)
async def test_what_cannot_be_edited_says_why_and_stays_in_the_box(here: Path, command: str, words: str) -> None:
    write(here)
    (here / "odd.bin").write_bytes(b"\x00\xff")
    bench = Bench(info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.type(pilot, command)
        await until(pilot, lambda: words in bench.notice)
        assert bench.prompt.text == command
        assert bench.engine.requests == []


async def test_an_edit_that_is_stopped_changes_nothing(here: Path) -> None:
    file = write(here)
    wait = Wait()
    steps = [*script(fenced(NEW)).steps]
    bench = Bench([Script([*steps[:3], wait, *steps[3:]])], info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.type(pilot, "/edit shelf.py add type hints")
        await until(pilot, wait.reached.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: "Stopped. Nothing was changed." in bench.notice)
        await bench.ready(pilot)
        assert file.read_text() == OLD
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "cannot be gone on with" in bench.notice)


async def test_another_answer_to_an_edit_is_an_edit(here: Path) -> None:
    write(here)
    bench = Bench(answers(OLD, NEW), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.type(pilot, "/edit shelf.py add type hints")
        await until(pilot, lambda: "nothing to change" in bench.notice)
        await bench.ready(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: isinstance(bench.app.screen, ChangesScreen))
        assert bench.engine.requests[0].prompt == bench.engine.requests[1].prompt
        assert len(bench.app.chat.desk.talk.turns) == 2


async def test_a_part_of_a_file(here: Path) -> None:
    file = write(here)
    part = "".join(NEW.splitlines(keepends=True)[18:20])
    bench = Bench([script(fenced(part))], info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        view = await proposed(pilot, bench, "/edit shelf.py:19-20 add type hints")
        assert view.text.count("[x]") == 1
        await pilot.press("w")
        await until(pilot, lambda: file.read_text() == OLD.replace("titles(self)", "titles(self) -> list[str]"))


async def test_a_file_larger_than_the_context_is_asked_for_in_parts(here: Path) -> None:
    names = [f"part{number}" for number in range(6)]
    text = "\n".join(f"def {name}():\n" + "    x = 1\n" * 30 for name in names)
    file = write(here, text)
    bench = Bench(info=replace(INFO, context=600))
    replies = []

    def reply(script: Script) -> Script:
        asked = "".join(segment.text for segment in bench.engine.requests[-1].prompt)
        block = max((piece for piece in asked.split("```") if "def part" in piece), key=asked.rindex)
        replies.append(block)
        return script_of(block.partition("\n")[2])

    def script_of(body: str) -> Script:
        return Script([*plain("```python\n"), *plain(body.replace("x = 1", "x = 2")), *plain("```\n")])

    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        engine = bench.engine
        engine._events = lambda request, script, old=engine._events: old(request, reply(script))  # type: ignore[misc,assignment,method-assign]
        await proposed(pilot, bench, "/edit shelf.py make x two")
        assert len(replies) > 1
        asked = [turn.text for turn in bench.app.chat.desk.talk.turns if turn.role == "user"]
        assert len(asked) == len(replies)
        assert all(one.startswith("/edit shelf.py:") for one in asked)
        await pilot.press("w")
        await until(pilot, lambda: file.read_text() == text.replace("x = 1", "x = 2"))


async def test_edits_are_told_apart_and_their_tokens_name_the_file(here: Path) -> None:
    write(here)
    chat = Script([*plain("a"), Say(("b",), ("bonus", "c"))], plain_tokens_per_s=100.0)
    bench = Bench([chat, *answers(NEW)], info=WIDE)
    async with bench.app.run_test(size=(120, 40)) as pilot:
        await bench.ask(pilot, "hi")
        await proposed(pilot, bench)
        await pilot.press("escape")
        session = bench.app.chat.desk.session
        assert (session.uses["chat"].answers, session.uses["edits"].answers) == (1, 1)
        shown = str(bench.app.chat.query_one("#session", Static).content)
        await until(pilot, lambda: "1 chat" in shown and "1 edit" in shown)
        decision = str(bench.app.chat.query_one("#decision", Static).content)
        assert "from shelf.py line" in decision
        bench.transcript.focus()
        await pilot.press("left", "left")
        assert "copied from  shelf.py line" in str(bench.app.chat.query_one(TokenPanel).content)
        await bench.ask(pilot, "and now talk")
        assert session.uses["chat"].answers == 2


async def test_edits_keep_their_own_limit_and_the_chat_its(here: Path) -> None:
    write(here)
    bench = Bench(answers(NEW), settings=Settings(max_tokens=5, temperature=0.9), info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        limit = bench.engine.requests[-1].max_tokens
        assert limit is not None
        assert limit > 60
        await pilot.press("escape")
        await bench.ask(pilot, "hi")
        assert (bench.engine.requests[-1].max_tokens, bench.engine.requests[-1].sampling.temperature) == (5, 0.9)


async def test_the_changes_wait_for_a_person_who_is_somewhere_else(here: Path) -> None:
    write(here)
    wait = Wait()
    steps = [*script(fenced(NEW)).steps]
    bench = Bench([Script([*steps[:3], wait, *steps[3:]])], info=WIDE)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.type(pilot, "/edit shelf.py add type hints")
        await until(pilot, wait.reached.is_set)
        await pilot.press("f1")
        wait.release.set()
        await until(pilot, lambda: bench.app.chat.desk.assist.proposal is not None)
        assert not isinstance(bench.app.screen, ChangesScreen)
        await pilot.press("escape")
        await until(pilot, lambda: "/diff shows them" in bench.notice)


async def test_an_edit_in_the_history_is_a_question_and_an_answer(here: Path) -> None:
    write(here)
    history = History.in_memory()
    bench = Bench(answers(NEW), info=WIDE, history=history)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await proposed(pilot, bench)
        chat = bench.app.chat.desk.talk.chat_id
    turns = history.turns(chat)
    assert [turn.text for turn in turns] == ["/edit shelf.py add type hints", fenced(NEW)]
    assert Source("shelf.py", 1) in {part.token.source for part in turns[1].parts}


class TestTheForm:
    async def test_it_makes_the_command(self, here: Path) -> None:
        write(here)
        bench = Bench(answers(NEW), info=WIDE)
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.ready(pilot)
            await pilot.press("ctrl+t")
            await until(pilot, lambda: isinstance(bench.app.screen, EditFormScreen))
            form = bench.app.screen
            await pilot.press("s")
            await until(pilot, lambda: form.query_one("#file", Input)._suggestion == "shelf.py")
            await pilot.press("right", "enter")
            await pilot.press(*"x", "enter", *"hints", "enter")
            await until(pilot, lambda: "10-42" in str(form.query_one("#fault", Static).content))
            form.query_one("#lines", Input).value = ""
            form.query_one("#instruction", Input).focus()
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(bench.app.screen, ChangesScreen))
            assert bench.app.chat.desk.talk.turns[0].text == "/edit shelf.py hints"

    async def test_half_a_command_opens_it_with_what_was_said(self, here: Path) -> None:
        write(here)
        bench = Bench(info=WIDE)
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.type(pilot, "/edit shelf.py:3-4")
            await until(pilot, lambda: isinstance(bench.app.screen, EditFormScreen))
            form = bench.app.screen
            assert (form.query_one("#file", Input).value, form.query_one("#lines", Input).value) == ("shelf.py", "3-4")
            await until(pilot, lambda: form.query_one("#instruction").has_focus)
            await pilot.press("escape")
            await until(pilot, lambda: bench.app.screen is bench.app.chat)
            assert bench.prompt.text == "/edit shelf.py:3-4"
            assert bench.engine.requests == []

    async def test_a_file_that_is_not_there_is_told(self, here: Path) -> None:
        bench = Bench(info=WIDE)
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.type(pilot, "/edit gone.py")
            await until(pilot, lambda: isinstance(bench.app.screen, EditFormScreen))
            await pilot.press(*"x", "enter")
            fault = bench.app.screen.query_one("#fault", Static)
            await until(pilot, lambda: "There is no file gone.py here." in str(fault.content))


class TestSendingASelection:
    async def test_a_code_block_into_the_prompt(self, here: Path) -> None:
        bench = Bench([Script(plain("Two:\n\n```py\n", "x = 1\n", "```\n\n```py\n", "y = 2\n", "```\n"))])
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.ask(pilot, "hi")
            bench.transcript.focus()
            await pilot.press("p")
            assert bench.prompt.text == "```py\nx = 1\n```\n"
            assert bench.prompt.has_focus
            bench.transcript.focus()
            await pilot.press("p")
            assert bench.prompt.text == "```py\nx = 1\n```\n```py\ny = 2\n```\n"
            bench.prompt.clear()
            bench.transcript.focus()
            await pilot.press("left", "left", "left", "left", "p")
            assert bench.prompt.text == "```py\nx = 1\n```\n"

    async def test_a_code_block_as_lines_of_its_file(self, here: Path) -> None:
        write(here)
        source = Source(str(here / "shelf.py"), 13)
        copied = Say(("    def add(self, number, title):\n",), ("bonus", "        pass\n"), source=source)
        bench = Bench([Script([*plain("```py\n"), copied, *plain("```\n")])], info=WIDE)
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.ask(pilot, "show me add of @shelf.py")
            bench.transcript.focus()
            await pilot.press("E")
            assert bench.prompt.text == "/edit shelf.py:13 "
            assert bench.prompt.has_focus

    async def test_without_code_or_without_a_file_it_says_so(self, here: Path) -> None:
        bench = Bench([Script(plain("No code.")), Script(plain("```\n", "x\n", "```"))])
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.ask(pilot, "hi")
            bench.transcript.focus()
            await pilot.press("p")
            assert "no code block" in bench.notice
            await bench.ask(pilot, "hi")
            bench.transcript.focus()
            await pilot.press("E")
            await until(pilot, lambda: "attach one with @path" in bench.notice)
            assert bench.prompt.text == ""
