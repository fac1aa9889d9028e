"""The log screen: native and own lines in one list, filtered, following."""

from pathlib import Path

import pytest
from textual.widgets import Input, Log

from localspec import paths
from localspec.tui.screens.log import EngineTail, LogScreen, newest_log
from tests.tui.helpers import Bench, until
from tests.tui.menus import shows

pytestmark = pytest.mark.usefixtures("menu")


def append(text: str, file: Path | None = None) -> None:
    file = file or paths.log_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8", newline="") as stream:
        stream.write(text)


async def opened(bench: Bench, pilot: object) -> LogScreen:
    await bench.ready(pilot)  # type: ignore[arg-type]
    await pilot.press("f6")  # type: ignore[attr-defined]
    await until(pilot, lambda: isinstance(bench.app.screen, LogScreen))  # type: ignore[arg-type]
    screen = bench.app.screen
    assert isinstance(screen, LogScreen)
    return screen


def lines(screen: LogScreen) -> list[str]:
    return list(screen.query_one(Log).lines)


async def test_both_kinds_of_lines_are_shown_and_new_ones_follow() -> None:
    append("llama_load: 28 layers\n")
    bench = Bench()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(bench, pilot)
        await until(pilot, lambda: any("engine llama_load: 28 layers" in line for line in lines(screen)))
        await until(pilot, lambda: any(line.startswith("app") and "starter: ready" in line for line in lines(screen)))
        append("a later line\nan unfinished")
        bench.app.journal.add("something of its own")
        await until(pilot, lambda: any("a later line" in line for line in lines(screen)))
        await until(pilot, lambda: any("something of its own" in line for line in lines(screen)))
        assert not any("unfinished" in line for line in lines(screen))
        append(" line\n")
        await until(pilot, lambda: any("an unfinished line" in line for line in lines(screen)))


async def test_filtering_by_text_and_by_source() -> None:
    append("alpha one\nbeta two\n[/b]gamma[@click=app.quit] three\n")
    bench = Bench()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(bench, pilot)
        await until(pilot, lambda: len(lines(screen)) >= 4)
        await pilot.press("slash", *"TWO")
        await until(pilot, lambda: lines(screen) == ["engine beta two"])
        screen.query_one("#filter", Input).value = "nothing like it"
        await shows(pilot, bench.app, "#log-empty", "No line contains that.")
        screen.query_one("#filter", Input).value = ""
        await pilot.press("enter", "e")
        await until(pilot, lambda: len(lines(screen)) == 3)
        assert lines(screen)[2] == "engine [/b]gamma[@click=app.quit] three"
        await pilot.press("a")
        await until(pilot, lambda: bool(lines(screen)) and all(line.startswith("app") for line in lines(screen)))
        await pilot.press("b")
        await until(pilot, lambda: len(lines(screen)) > 3)


async def test_escape_sequences_in_native_lines_are_marks() -> None:
    """S5, T1."""
    append("\x1b]52;c;AAAA\x07 \x9b2J evil\n")
    bench = Bench()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(bench, pilot)
        await until(pilot, lambda: any("␛]52;c;AAAA␇ <9B>2J evil" in line for line in lines(screen)))


async def test_scrolled_up_it_holds_still_and_end_follows_again() -> None:
    append("".join(f"line {n}\n" for n in range(200)))
    bench = Bench()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(bench, pilot)
        log = screen.query_one(Log)
        await until(pilot, lambda: log.is_vertical_scroll_end and log.line_count > 200)
        await pilot.press("pageup")
        await until(pilot, lambda: not log.is_vertical_scroll_end)
        at = log.scroll_y
        append("a new one\n")
        await until(pilot, lambda: any("a new one" in line for line in lines(screen)))
        assert log.scroll_y == at
        await pilot.press("end")
        await until(pilot, lambda: log.is_vertical_scroll_end)


def test_only_the_end_of_a_long_log_is_read_and_a_moved_one_begun_anew() -> None:
    append("".join(f"line {n:06}\n" for n in range(20_000)))
    tail = EngineTail(paths.log_file())
    first = tail.read()
    assert first[-1].text == "line 019999"
    assert len(first) < 6000
    assert tail.read() == []
    paths.log_file().replace(paths.log_file().with_name("engine.log.old"))
    assert tail.read() == []
    append("new\n")
    assert [line.text for line in tail.read()] == ["new"]


def test_the_log_written_last_is_shown() -> None:
    import os

    append("first\n")
    second = paths.log_file().with_name("engine-2.log")
    append("second\n", second)
    os.utime(paths.log_file(), (1, 1))
    assert newest_log() == second
