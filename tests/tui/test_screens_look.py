"""How the screens beside the chat look, a picture a state. T10: few colours and none, light and dark."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input

from localspec import paths
from localspec.chat import config
from localspec.chat.config import Scope
from localspec.chat.settings import Settings
from localspec.models import measured, scan
from localspec.tui import journal
from localspec.tui.screens.menu import MenuScreen
from localspec.tui.screens.samples import SamplesScreen
from localspec.tui.screens.settings import SettingsScreen
from tests.tui.helpers import Bench, until
from tests.tui.menus import ScriptedPull, moved, nothing_here, own_menu, shows

Snap = Callable[..., bool]
Do = Callable[[Pilot[Any]], Awaitable[None]]

TARGET = 1_117_320_768


@pytest.fixture(autouse=True)
def same_everywhere(menu: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine, this hour or this folder is in a picture."""
    for name in ("NO_COLOR", "COLORTERM", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "log_file", lambda: Path("state/engine.log"))
    monkeypatch.setattr(journal.time, "time", lambda: 1_800_000_000.0)
    monkeypatch.setattr(scan, "scan", lambda *_, **__: scan.Scan((), (), 0))
    measured.remember("starter", {"edits": 2.14, "prose": 1.02})


def bench_for(theme: str = "localspec-dark", **given: Any) -> Bench:
    return Bench(settings=Settings(theme=theme), **given)


def menu_open(bench: Bench, *keys: str) -> Do:
    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        await pilot.press("f3")
        await menu_filled(bench, pilot)
        await pilot.press(*keys)

    return do


async def menu_filled(bench: Bench, pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: isinstance(bench.app.screen, MenuScreen))
    await until(pilot, lambda: bench.app.screen.query_one(DataTable).row_count == 3)
    await shows(pilot, bench.app, "#details-title", "Starter 1.5B")


def settings_open(bench: Bench) -> Do:
    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(bench.app.screen, SettingsScreen))
        bench.app.screen.query_one("#row-temperature Input", Input).cursor_blink = False
        await pilot.pause()

    return do


SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_menu(snap_compare: Snap, size: tuple[int, int]) -> None:
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=size, run_before=menu_open(bench))


@pytest.mark.parametrize("theme", ["localspec-light", "ansi-dark", "ansi-light"])
def test_menu_in_theme(snap_compare: Snap, theme: str) -> None:
    bench = bench_for(theme)
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=menu_open(bench))


def test_menu_without_colours(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=menu_open(bench))


def test_first_run(snap_compare: Snap) -> None:
    bench = bench_for(choose=nothing_here)

    async def do(pilot: Pilot[Any]) -> None:
        await menu_filled(bench, pilot)
        await shows(pilot, bench.app, "#welcome", "Press Enter")

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_menu_while_fetching(snap_compare: Snap) -> None:
    pull = ScriptedPull([moved("starter-target", 482_616_249, TARGET)])
    bench = bench_for(pull=pull)

    async def do(pilot: Pilot[Any]) -> None:
        await menu_open(bench, "enter")(pilot)
        pull.step()
        await shows(pilot, bench.app, "#downloads", "30%")

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_menu_with_problems(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALSPEC_HOME", ".")
    measured.remember("starter", {"edits": 2.14, "prose": 1.02})
    own_menu('[files.bad]\nsize = "many"\n[pairs.lost]\ntarget = "nowhere"\n')
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=menu_open(bench))


def test_licence(snap_compare: Snap) -> None:
    def ask(_: ScriptedPull, given: dict[str, Any]) -> None:
        from localspec.models import catalog

        given["consent"](catalog.load().files["huge"])

    pull = ScriptedPull([ask])
    bench = bench_for(pull=pull)

    async def do(pilot: Pilot[Any]) -> None:
        await menu_open(bench, "down", "enter")(pilot)
        pull.step()
        await until(pilot, lambda: len(bench.app.screen.query("#yes")) == 1)
        await shows(pilot, bench.app, "#question", "Llama 3.3")

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_adding(snap_compare: Snap) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await menu_open(bench, "a")(pilot)
        await until(pilot, lambda: len(bench.app.screen.query("#target")) == 1)
        for field in bench.app.screen.query(Input):
            field.cursor_blink = False
        await shows(pilot, bench.app, "#found-title", "Nothing found")

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_samples(snap_compare: Snap) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.app.push_screen(SamplesScreen())
        await until(pilot, lambda: isinstance(bench.app.screen, SamplesScreen))
        await shows(pilot, bench.app, "#samples-state", "Enter sends it")

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


@pytest.mark.parametrize("theme", ["localspec-dark", "localspec-light", "ansi-dark", "ansi-light"])
def test_settings(snap_compare: Snap, theme: str) -> None:
    config.save({"temperature": 0.2})
    config.save({"temperature": 0}, Scope("preset", "precise"))
    bench = bench_for(theme)
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=settings_open(bench))


def test_settings_without_colours(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=settings_open(bench))


def test_settings_with_a_wrong_value(snap_compare: Snap) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await settings_open(bench)(pilot)
        bench.app.screen.query_one("#row-temperature Input", Input).value = "-1"
        await shows(pilot, bench.app, "#row-temperature .setting-fault", "0 or more")

    assert snap_compare(bench.app, terminal_size=(120, 40), run_before=do)


def test_log(snap_compare: Snap) -> None:
    file = paths.log_file()
    file.parent.mkdir(parents=True)
    file.write_text(
        "=== 2027-01-15 08:00:00 engine for target.gguf ===\nload_tensors: 28 layers\n\x1b[31mred\x1b[0m\n", "utf-8"
    )
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        await until(pilot, lambda: len(bench.app.journal.after(0)) == 2)
        await pilot.press("f6")
        await shows(pilot, bench.app, "#title-right", "5 of 5 lines")

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_help(snap_compare: Snap) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        await pilot.press("f1")
        await shows(pilot, bench.app, "#help-colours", "thrown away")

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)
