"""How an edit looks, a picture a state: two changes of which one is left, written, refused, narrow and wide."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from localspec.chat.settings import Settings
from localspec.tui.screens.edit_form import EditFormScreen
from tests.fake_engine import INFO, Script
from tests.tui.edits import NEW, OLD, answers, fenced, proposed, script, write
from tests.tui.helpers import Bench, until

Snap = Callable[..., bool]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("NO_COLOR", "COLORTERM", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    return tmp_path


def bench_for(theme: str = "localspec-dark", scripts: Sequence[Script] = ()) -> Bench:
    return Bench(scripts or answers(NEW), settings=Settings(theme=theme), info=replace(INFO, context=4096))


def changes(bench: Bench, *keys: str, until_said: str = "") -> Callable[[Pilot[Any]], Any]:
    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await proposed(pilot, bench)
        await pilot.press(*keys)
        said = bench.app.screen.query_one("#changes-state", Static)
        await until(pilot, lambda: until_said in str(said.content))
        await pilot.pause()

    return do


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_two_changes_one_left(snap_compare: Snap, size: tuple[int, int]) -> None:
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=size, run_before=changes(bench, "down", "space"))


@pytest.mark.parametrize("theme", ["localspec-light", "ansi-dark", "ansi-light"])
def test_in_other_themes(snap_compare: Snap, theme: str) -> None:
    bench = bench_for(theme)
    assert snap_compare(bench.app, terminal_size=(100, 30), run_before=changes(bench, "down", "space", "up"))


def test_without_colour(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=changes(bench, "down", "space"))


def test_written(snap_compare: Snap) -> None:
    bench = bench_for()
    do = changes(bench, "w", until_said="2 changes written")
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_refused_because_it_changed_meanwhile(snap_compare: Snap, here: Path) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await changes(bench)(pilot)
        (here / "shelf.py").write_text("x\n")
        await pilot.press("w")
        said = bench.app.screen.query_one("#changes-state", Static)
        await until(pilot, lambda: "nothing was written" in str(said.content))
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_an_answer_that_leaves_text_out(snap_compare: Snap) -> None:
    bench = bench_for(
        scripts=[script(fenced("".join(OLD.splitlines(keepends=True)[:11]) + "    # ... the rest is unchanged\n"))]
    )

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await bench.type(pilot, "/edit shelf.py add type hints")
        await until(pilot, lambda: "leaves text out" in bench.notice)
        await bench.ready(pilot)
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_after_the_edit(snap_compare: Snap) -> None:
    """The edit apart from the chat in the panel, with what was decided and where it was copied from."""
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await changes(bench, "w", until_said="written")(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: "/undo" in bench.notice)
        bench.transcript.focus()
        await pilot.press(*["left"] * 4)
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(120, 40), run_before=do)


def test_the_form(snap_compare: Snap) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(bench.app.screen, EditFormScreen))
        for box in bench.app.screen.query("Input"):
            box.cursor_blink = False  # type: ignore[attr-defined]
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)
