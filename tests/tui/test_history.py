"""The history screen: finding, looking, opening, changing. T2, S5, T11."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from localspec import paths
from localspec.chat.errors import HistoryError
from localspec.chat.history import FILE_NAME, History
from localspec.tui.screens.branches import BranchesScreen
from localspec.tui.screens.dialogs import ConfirmScreen, LineScreen
from localspec.tui.screens.history import HistoryScreen
from tests.chat.chats import TEXT, answer, chat_of, question
from tests.fake_engine import Script, plain
from tests.tui.helpers import Bench, until

BEGUN = 1_790_000_000.0
NASTY = "[red]no[/] [@click=app.quit]x[/] \x1b[2J"


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    opened = History.open()
    yield opened
    opened.close()
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def chats(history: History) -> list[int]:
    """Three chats, the last one latest: two branches, nasty text, and a plain one."""
    made = []
    for place, title in enumerate(("Merge two sorted lists", NASTY, "Explain this regex")):
        at = BEGUN + place * 86_400
        chat = history.create(target="qwen2.5-coder-1.5b", created=at)
        first = history.add(chat.id, question(f"{title}\nwith list[int] hints"), None, at + 60)
        history.add(chat.id, answer(), first, at + 120)
        made.append(chat.id)
    old = history.turns(made[0])[-1].id
    branch = history.add(made[0], question("And with heapq?"), old, BEGUN + 180)
    history.add(made[0], answer(), branch, BEGUN + 200)
    other = history.add(made[0], question("And with a generator?"), old, BEGUN + 240)
    history.add(made[0], answer(), other, BEGUN + 300)
    return made


async def opened(bench: Bench, pilot: Pilot[Any], count: int = 3) -> HistoryScreen:
    await bench.ready(pilot)
    await pilot.press("f4")
    await until(pilot, lambda: isinstance(bench.app.screen, HistoryScreen), "the history is open")
    screen = bench.app.screen
    assert isinstance(screen, HistoryScreen)
    await until(pilot, lambda: screen.is_mounted and len(screen._lines) == count, "the chats are listed")
    return screen


def preview(screen: HistoryScreen) -> str:
    return str(screen.query_one("#preview", Static).content)


def told(screen: HistoryScreen) -> str:
    line = screen.query_one("#problem", Static)
    return str(line.content) if line.display else ""


def titles(screen: HistoryScreen) -> list[int]:
    return [line.chat.id for line in screen._lines]


async def test_the_latest_is_first_and_previewed(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        assert titles(screen) == chats[::-1]
        await until(pilot, lambda: "Explain this regex" in preview(screen))
        await pilot.press("down")
        await until(pilot, lambda: "[red]no[/] [@click=app.quit]x[/] ␛[2J" in preview(screen), "shown as it is")
        await pilot.press("down")
        await until(pilot, lambda: "6 messages · 2 branches" in preview(screen))
        assert "heapq" not in preview(screen), "the branch that is shown"
        assert "3.00x plain" in preview(screen)


async def test_searching_as_you_type(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        await pilot.press("slash", *"heapq")
        await until(pilot, lambda: titles(screen) == chats[:1])
        await until(pilot, lambda: "And with heapq?" in preview(screen), "the branch in which it was found")
        await pilot.press(*"xyz")
        await until(pilot, lambda: titles(screen) == [])
        await until(pilot, lambda: "No chat has these words" in preview(screen))
        await pilot.press("escape")
        await until(pilot, lambda: titles(screen) == chats[::-1], "Esc empties the search first")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(bench.app.screen, HistoryScreen))


async def test_opening_goes_on_with_the_chat_and_its_colours(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        await opened(bench, pilot)
        await pilot.press("down", "enter")
        await until(pilot, lambda: bench.app.chat.desk.talk.chat_id == chats[1])
        turns = bench.app.chat.desk.talk.turns
        assert [turn.text for turn in turns] == [f"{NASTY}\nwith list[int] hints", TEXT]
        assert [part.token.kind for part in turns[1].parts] == [part.token.kind for part in answer().parts]
        await pilot.press(*"more", "enter")
        await until(pilot, lambda: len(history.turns(chats[1])) == 4 and history.turns(chats[1])[-1].reason)
        sent = "".join(segment.text for segment in bench.engine.requests[-1].prompt)
        assert NASTY in sent


async def test_a_hit_opens_in_its_branch(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        await pilot.press("slash", *"heapq")
        await until(pilot, lambda: titles(screen) == chats[:1])
        await pilot.press("enter", "enter")
        await until(pilot, lambda: bench.app.chat.desk.talk.chat_id == chats[0])
        assert [turn.text for turn in bench.app.chat.desk.talk.turns][2:] == ["And with heapq?", TEXT]


async def test_branches(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        await pilot.press("b")
        await until(pilot, lambda: "one branch" in told(screen))
        await pilot.press("end", "b")
        await until(pilot, lambda: isinstance(bench.app.screen, BranchesScreen))
        await pilot.press("escape")
        await until(pilot, lambda: bench.app.screen is screen)
        await pilot.press("b")
        await until(pilot, lambda: isinstance(bench.app.screen, BranchesScreen))
        await pilot.press("down", "enter")
        await until(pilot, lambda: bench.app.chat.desk.talk.chat_id == chats[0])
        assert bench.app.chat.desk.talk.turns[2].text == "And with heapq?"
        assert history.turns(chats[0])[2].text == "And with heapq?", "it is the shown one from now on"


async def test_renaming(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        await pilot.press("down", "r")
        await until(pilot, lambda: isinstance(bench.app.screen, LineScreen))
        bench.app.screen.query_one(Input).value = "A [better] name"
        await pilot.press("enter")
        await until(pilot, lambda: history.chat(chats[1]).title == "A [better] name")
        await until(pilot, lambda: "A [better] name" in preview(screen), "the cursor stays on it")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(bench.app.screen, LineScreen))
        await pilot.press("escape")
        await until(pilot, lambda: bench.app.screen is screen)
        assert history.chat(chats[1]).title == "A [better] name"


async def test_deleting_asks_and_enter_keeps(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        await pilot.press("down", "d")
        await until(pilot, lambda: isinstance(bench.app.screen, ConfirmScreen))
        await pilot.press("enter")
        await until(pilot, lambda: bench.app.screen is screen)
        assert len(history.chats()) == 3
        await pilot.press("d")
        await until(pilot, lambda: isinstance(bench.app.screen, ConfirmScreen))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: titles(screen) == [chats[2], chats[0]])
        assert {chat.id for chat in history.chats()} == {chats[0], chats[2]}
        line = screen.chosen
        assert line is not None
        assert line.chat.id == chats[0], "the cursor goes to the neighbour"


async def test_deleting_the_open_chat_leaves_an_empty_one(history: History) -> None:
    bench = Bench([Script(plain("one"))], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        await pilot.press(*"hi", "enter")
        await until(pilot, lambda: bench.app.chat.desk.talk.chat_id is not None and bench.app.engine.phase == "ready")
        await opened(bench, pilot, 1)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(bench.app.screen, ConfirmScreen))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: history.chats() == [])
        await until(pilot, lambda: bench.app.chat.desk.talk.chat_id is None and not bench.app.chat.desk.talk.turns)
        await pilot.press("escape", *"anew", "enter")
        await until(pilot, lambda: [chat.title for chat in history.chats()] == ["anew"])


@pytest.mark.parametrize(("name", "begins"), [("a.html", "<!doctype"), ("a.md", "# "), ("a.json", "{")])
async def test_exporting(history: History, chats: list[int], tmp_path: Path, name: str, begins: str) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(bench.app.screen, LineScreen))
        line = bench.app.screen.query_one(Input)
        assert line.value.endswith("explain-this-regex.html")
        line.value = str(tmp_path / "a.txt")
        await pilot.press("enter")
        fault = bench.app.screen.query_one("#fault", Static)
        await until(pilot, lambda: "must end with" in str(fault.content))
        line.value = str(tmp_path / name)
        await pilot.press("enter")
        await until(pilot, lambda: "Written to" in told(screen))
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(bench.app.screen, LineScreen))
        bench.app.screen.query_one(Input).value = str(tmp_path / name)
        await pilot.press("enter")
        fault = bench.app.screen.query_one("#fault", Static)
        await until(pilot, lambda: "there already" in str(fault.content))


async def test_an_export_that_fails_is_said(history: History, chats: list[int], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(bench.app.screen, LineScreen))
        bench.app.screen.query_one(Input).value = str(tmp_path / "file" / "a.md")
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be written" in told(screen))


async def test_an_empty_history_says_what_to_do(history: History) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot, 0)
        await until(pilot, lambda: "No chats yet" in preview(screen))
        await pilot.press("r", "d", "e", "b", "enter")
        await pilot.pause()
        assert bench.app.screen is screen


async def test_a_damaged_history_is_said_and_the_screen_works(home: Path) -> None:
    """T11."""
    file = paths.data_dir() / FILE_NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not a database" * 100)
    damaged = History.open()
    bench = Bench(history=damaged)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot, 0)
        await until(pilot, lambda: "chats are not kept this time" in told(screen))
        chat_of(damaged, "while it lasts")
        await pilot.press("slash", *"lasts")
        await until(pilot, lambda: len(screen._lines) == 1)


async def test_a_history_that_fails_while_it_is_read_is_said(
    history: History, chats: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)

        def fail(*_: object, **__: object) -> None:
            raise HistoryError("the disk [b]went[/b] away")

        monkeypatch.setattr(history, "search", fail)
        await pilot.press("slash", "x")
        await until(pilot, lambda: "the disk [b]went[/b] away" in told(screen))
        monkeypatch.setattr(history, "update", fail)
        await pilot.press("escape")
        await until(pilot, lambda: len(screen._lines) == 3)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(bench.app.screen, LineScreen))
        await pilot.press("x", "enter")
        await until(pilot, lambda: "went[/b] away" in told(screen))


async def test_tab_reaches_everything(history: History, chats: list[int]) -> None:
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        screen = await opened(bench, pilot)
        reached = set()
        for _ in range(4):
            assert screen.focused is not None
            reached.add(screen.focused.id)
            await pilot.press("tab")
        assert reached == {"search", "chats", "facts"}


@pytest.mark.parametrize(
    ("size", "theme"),
    [((80, 24), "localspec-dark"), ((120, 40), "localspec-light")],
    ids=["80x24-dark", "120x40-light"],
)
def test_the_history_looks_like_this(
    snap_compare: Any, history: History, chats: list[int], size: tuple[int, int], theme: str
) -> None:
    bench = Bench(history=history)
    bench.app.theme = theme

    async def at_the_branched_chat(pilot: Pilot[Any]) -> None:
        screen = await opened(bench, pilot)
        await pilot.press("down", "down")
        await until(pilot, lambda: "2 branches" in preview(screen))

    assert snap_compare(bench.app, terminal_size=size, run_before=at_the_branched_chat)


def test_a_search_looks_like_this(snap_compare: Any, history: History, chats: list[int]) -> None:
    bench = Bench(history=history)

    async def searched(pilot: Pilot[Any]) -> None:
        screen = await opened(bench, pilot)
        screen.query_one(Input).cursor_blink = False
        await pilot.press("slash", *"heapq")
        await until(pilot, lambda: "And with heapq?" in preview(screen))

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=searched)
