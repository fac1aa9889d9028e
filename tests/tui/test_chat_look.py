"""How the chat looks, a picture a state. T10: few colours and none, light and dark."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from localspec.chat.settings import Settings
from localspec.engine.errors import EngineDied
from localspec.engine.events import Kind
from tests.fake_engine import INFO, Reading, Say, Script, Step, Wait, plain
from tests.tui.helpers import Bench, until

Snap = Callable[..., bool]
Do = Callable[[Pilot[Any]], Awaitable[None]]

QUESTION = "Rename the class `Shelf` to `Bookcase` and add type hints."
ANSWER = '''\
Here it is:

```python
class Bookcase:
    """Books in order, and who has which."""

    def __init__(self, name: str, days: int = 21) -> None:
        self.name = name
        self.days = days

    def add(self, number: int, title: str) -> None:
        if number in self.books:
            raise ValueError(f"number {number} is taken by {self.books[number]}")
        self.books[number] = title
```

Every method has **type hints** now; `Bookcase` is the only new name.
'''
CYCLES: list[tuple[int, Kind, int]] = [(0, "plain", 0), (7, "bonus", 7), (3, "resampled", 5), (12, "bonus", 12),
                                       (0, "resampled", 3), (5, "resampled", 9), (1, "bonus", 1)]  # fmt: skip


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "COLORTERM", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def steps() -> list[Step]:
    """The answer in cycles of every kind: words with the blank before them."""
    words: list[str] = []
    for character in ANSWER:
        if words and character.isalnum() and (words[-1][-1].isalnum() or words[-1] == " "):
            words[-1] += character
        else:
            words.append(character)
    made: list[Step] = [*plain(words[0])]
    at = 1
    while at < len(words):
        count, kind, proposed = CYCLES[len(made) % len(CYCLES)]
        accepted = words[at : at + count]
        at += count
        end: tuple[Kind, str] | None = (kind, words[at]) if at < len(words) else None
        drafter: Any = "none" if kind == "plain" else "draft" if len(made) % 3 == 0 else "lookup"
        made.append(Say(accepted, end, drafter, max(proposed, len(accepted))))
        at += 1
    return made


def bench_for(theme: str = "localspec-dark", *more: Step, color: Any = "auto") -> Bench:
    script = Script([*steps(), *more], prompt_tokens=312, prompt_reused=200, plain_tokens_per_s=180.0)
    settings = Settings(theme=theme, color=color)
    return Bench([script], settings=settings, info=replace(INFO, context=4096), draft="small.gguf")


def answered(bench: Bench, *keys: str) -> Do:
    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await bench.ask(pilot, QUESTION)
        await pilot.press(*keys)
        await pilot.pause()

    return do


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_an_answer(snap_compare: Snap, size: tuple[int, int]) -> None:
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=size, run_before=answered(bench))


@pytest.mark.parametrize("theme", ["localspec-light", "ansi-dark", "ansi-light"])
def test_other_themes(snap_compare: Snap, theme: str) -> None:
    bench = bench_for(theme)
    assert snap_compare(bench.app, terminal_size=(120, 40), run_before=answered(bench))


def test_without_colour(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bench = bench_for()
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=answered(bench))


def test_marks(snap_compare: Snap) -> None:
    bench = bench_for(color="marks")
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=answered(bench))


@pytest.mark.parametrize("theme", ["localspec-dark", "localspec-light"])
def test_markdown(snap_compare: Snap, theme: str) -> None:
    bench = bench_for(theme)
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=answered(bench, "ctrl+l"))


def test_a_token_with_its_cycle_and_the_rejected_guesses(snap_compare: Snap) -> None:
    bench = bench_for()
    keys = ("shift+tab", "x", *["left"] * 4)
    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=answered(bench, *keys))


def test_finding(snap_compare: Snap) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.app.chat.query_one("#find").cursor_blink = False
        await answered(bench, "ctrl+f")(pilot)
        await until(pilot, lambda: bench.app.chat.query_one("#find").size.height == 1)
        await until(pilot, lambda: bench.transcript.scroll_offset.y == bench.transcript.max_scroll_y)
        await pilot.press(*"number", "enter")
        await until(pilot, lambda: str(bench.app.chat.query_one("#found").content).startswith("1 of"))
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_an_empty_chat(snap_compare: Snap) -> None:
    bench = bench_for()

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_reading_the_prompt(snap_compare: Snap) -> None:
    wait = Wait()
    bench = Bench([Script([Reading(1500, 4000, 800), wait, *plain("x")], prompt_tokens=4000)])

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await bench.type(pilot, "A long question")
        await until(pilot, lambda: "1,500 of 4,000" in bench.bar)
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_a_stopped_answer(snap_compare: Snap) -> None:
    wait = Wait()
    bench = bench_for("localspec-dark", wait)

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await bench.type(pilot, QUESTION)
        await until(pilot, wait.reached.is_set)
        await pilot.press("escape")
        await bench.ready(pilot)
        await until(pilot, lambda: "■ stopped" in bench.shown and "Stopped." in bench.notice)
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)


def test_a_crash(snap_compare: Snap) -> None:
    died = EngineDied("The engine's process died in the middle of an answer (SIGKILL: killed from outside).")
    bench = bench_for("localspec-dark", died)

    async def do(pilot: Pilot[Any]) -> None:
        await bench.ready(pilot)
        bench.prompt.cursor_blink = False
        await bench.type(pilot, QUESTION)
        await until(pilot, lambda: "broken off" in bench.shown and "F9" in bench.notice)
        await until(pilot, lambda: bench.app.engine.phase == "broken")
        await pilot.pause()

    assert snap_compare(bench.app, terminal_size=(80, 24), run_before=do)
