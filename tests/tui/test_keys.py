"""Keys: every action has one, a person can change it, and what is wrong is named. Help and palette know them all."""

from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from localspec.chat.config import Config
from localspec.tui import keys
from localspec.tui.screens.help import HelpScreen
from localspec.tui.screens.log import LogScreen
from tests.tui.helpers import Bench, until
from tests.tui.menus import text_of

pytestmark = pytest.mark.usefixtures("menu")


def test_every_action_has_a_key_an_id_and_words() -> None:
    found = keys.actions()
    assert {"app.help", "app.models", "app.settings", "app.log", "menu.add", "settings.reset"} <= {a.id for a in found}
    for action in found:
        assert action.keys, action
        assert action.description, action
        assert "." in action.id, action


@pytest.mark.parametrize("text", ["ctrl+x", "f9", "a", "?", "shift+f2", "ctrl+shift+left", "escape", "slash", "pageup"])
def test_what_is_a_key(text: str) -> None:
    assert keys.is_key(text)


@pytest.mark.parametrize("text", ["ctrl", "cmd+x", "f99", "ab", "", "ctrl+", "[/b]"])
def test_what_is_no_key(text: str) -> None:
    assert not keys.is_key(text)


def test_wrong_keys_are_named_and_right_ones_hold() -> None:
    good, faults = keys.keymap({"app.log": "f12", "no.such": "f9", "app.help": "hyperspace", "app.models": "f5"})
    assert good == {"app.log": "f12", "app.models": "f5"}
    assert faults == [
        "keys.no.such: there is no such action; Help (F1) lists them",
        "keys.app.help: 'hyperspace' is no key; write it like ctrl+x or f9",
        "keys.app.models: f5 is also the key of app.settings",
    ]


def test_keys_are_shown_for_people() -> None:
    assert keys.shown("ctrl+x,f9") == "Ctrl+X, F9"
    assert keys.shown("escape") == "Esc"
    assert keys.shown("slash") == "/"


async def test_a_key_of_the_config_does_what_its_action_does() -> None:
    bench = Bench(config=Config(keys={"app.log": "f12", "no.such": "f9"}))
    async with bench.app.run_test(size=(80, 24), notifications=True) as pilot:
        await bench.ready(pilot)
        await until(pilot, lambda: any("no.such" in entry.text for entry in bench.app.journal.after(0)))
        await pilot.press("f12")
        await until(pilot, lambda: isinstance(bench.app.screen, LogScreen))
        assert any("no.such" in one.message for one in bench.app._notifications)


async def test_help_lists_the_live_keys() -> None:
    bench = Bench(config=Config(keys={"app.log": "f12"}))
    async with bench.app.run_test(size=(110, 200)) as pilot:
        await bench.ready(pilot)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(bench.app.screen, HelpScreen))
        await until(pilot, lambda: "F12 Log app.log" in text_of(bench.app, "#help-keys"))
        shown = text_of(bench.app, "#help-keys")
        for action in keys.actions():
            assert action.id in shown


async def test_help_says_what_colours_and_numbers_mean() -> None:
    bench = Bench()
    async with bench.app.run_test(size=(110, 200)) as pilot:
        await bench.ready(pilot)
        await pilot.press("f1")
        await until(pilot, lambda: "thrown away" in text_of(bench.app, "#help-colours"))
        for word in ("resampled", "bonus", "accepted (lookup)", "plain"):
            assert word in text_of(bench.app, "#help-colours")
        for word in ("speed-up", "accepted", "tokens/cycle", "TTFT", "ITL", "nothing was measured"):
            assert word in text_of(bench.app, "#help-numbers")


async def test_the_palette_has_every_action_of_the_screen() -> None:
    bench = Bench()
    async with bench.app.run_test(size=(100, 40)) as pilot:
        await bench.ready(pilot)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(bench.app.screen, CommandPalette))
        palette = bench.app.screen
        assert isinstance(palette, CommandPalette)
        palette.query_one(Input).value = "app.log"
        listing: Any = palette.query_one("CommandList")
        await until(pilot, lambda: listing.option_count and "Log" in str(listing.get_option_at_index(0).prompt))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(bench.app.screen, LogScreen))


async def test_the_palette_reaches_what_has_not_the_focus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undoing an edit is a key of the transcript, and the person types in the prompt."""
    monkeypatch.chdir(tmp_path)
    bench = Bench(config=Config(keys={"transcript.undo_edit": "z"}))
    async with bench.app.run_test(size=(100, 40)) as pilot:
        await bench.ask(pilot, "hi")
        await until(pilot, lambda: bench.app._keymap)
        assert bench.prompt.has_focus
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(bench.app.screen, CommandPalette))
        palette = bench.app.screen
        palette.query_one(Input).value = "Undo the last"
        listing: Any = palette.query_one("CommandList")
        await until(pilot, lambda: listing.option_count and "Undo" in str(listing.get_option_at_index(0).prompt))
        assert "z  \u00b7  transcript.undo_edit" in str(listing.get_option_at_index(0).prompt)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "there is no edit to undo" in bench.notice)
