"""The settings screen: each setting explained, checked, kept where it was meant, and in force when one leaves."""

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, TextArea

from localspec import paths
from localspec.chat import config
from localspec.chat.config import Scope
from localspec.chat.settings import SETTINGS
from localspec.tui.screens.settings import SettingsScreen
from localspec.tui.widgets.settingrow import SettingRow
from tests.fake_engine import Script, plain
from tests.tui.helpers import Bench, until
from tests.tui.menus import shows, text_of

pytestmark = pytest.mark.usefixtures("menu")


def bench_with_config(**given: Any) -> Bench:
    return Bench([Script(plain("Hello", "."))], config=config.load(), **given)


async def open_settings(bench: Bench, pilot: Pilot[Any]) -> SettingsScreen:
    await bench.ready(pilot)
    await pilot.press("f5")
    await until(pilot, lambda: isinstance(bench.app.screen, SettingsScreen))
    screen = bench.app.screen
    assert isinstance(screen, SettingsScreen)
    await until(pilot, lambda: screen._before is not None)
    return screen


def row(screen: SettingsScreen, name: str) -> SettingRow:
    return screen.query_one(f"#row-{name}", SettingRow)


async def write(pilot: Pilot[Any], screen: SettingsScreen, name: str, text: str) -> None:
    editor = row(screen, name).query_one(Input)
    editor.focus()
    editor.value = text
    await pilot.press("enter")
    await pilot.pause()


async def test_every_setting_is_there_with_its_line() -> None:
    bench = bench_with_config()
    async with bench.app.run_test(size=(100, 130)) as pilot:
        screen = await open_settings(bench, pilot)
        for setting in SETTINGS:
            shown = text_of(bench.app, f"#row-{setting.name} .setting-help")
            assert shown == setting.line
            assert text_of(bench.app, f"#row-{setting.name} .setting-title") == setting.title
        assert len(screen.query(SettingRow)) == len(SETTINGS)


async def test_tab_reaches_every_setting_and_every_button() -> None:
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        reached = set()
        for _ in range(len(SETTINGS) + 12):
            reached.add(bench.app.focused)
            await pilot.press("tab")
        for one in screen.query(SettingRow):
            assert one.query_one(".setting-value") in reached, one.id
        assert screen.query_one("#save") in reached
        assert screen.query_one("#scope") in reached


async def test_a_value_is_kept_and_holds_for_the_next_answer() -> None:
    file = paths.config_file()
    file.parent.mkdir(parents=True)
    file.write_text("# mine\n[sources]\norder = ['disk']  # only\n", encoding="utf-8")
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        await write(pilot, screen, "temperature", "0.2")
        assert config.load().values == {"temperature": 0.2}
        assert "# mine" in file.read_text(encoding="utf-8")
        assert "# only" in file.read_text(encoding="utf-8")
        await shows(pilot, bench.app, "#row-temperature .setting-source", "set here")
        loaded = len(bench.engines)
        await pilot.press("escape")
        await until(pilot, lambda: bench.app.settings.temperature == 0.2)
        await pilot.press(*"hi", "enter")
        await until(pilot, lambda: len(bench.engine.requests) == 1)
        assert bench.engine.requests[0].sampling.temperature == 0.2
        assert len(bench.engines) == loaded


async def test_leaving_a_field_keeps_it_too() -> None:
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        row(screen, "top_k").query_one(Input).focus()
        row(screen, "top_k").query_one(Input).value = "7"
        await pilot.press("tab")
        await until(pilot, lambda: config.load().values == {"top_k": 7})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("temperature", "-1", "temperature must be a finite number, 0 or more, not -1.0"),
        ("top_p", "2", "top_p must be between 0 and 1, not 2.0"),
        ("draft_length", "0", "draft_length must be between 1 and 64, not 0"),
        ("seed", "[/b]", "seed must be a whole number or auto, not '[/b]'"),
    ],
)
async def test_what_the_engine_would_refuse_is_said_and_not_kept(name: str, text: str, words: str) -> None:
    """T2: markup in a value stays text."""
    bench = bench_with_config()
    async with bench.app.run_test(size=(100, 130)) as pilot:
        screen = await open_settings(bench, pilot)
        await write(pilot, screen, name, text)
        await shows(pilot, bench.app, f"#row-{name} .setting-fault", words)
        assert config.load().values == {}
        await write(pilot, screen, name, "1")
        await until(pilot, lambda: not row(screen, name).has_class("-faulty"))
        assert list(config.load().values) == [name]


async def test_a_setting_of_the_loaded_model_loads_it_again_when_one_leaves() -> None:
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        loaded = len(bench.engines)
        await write(pilot, screen, "context", "300")
        await shows(pilot, bench.app, "#title-right", "loads again when you leave")
        assert len(bench.engines) == loaded
        await pilot.press("escape")
        await until(pilot, lambda: len(bench.engines) == loaded + 1)
        assert bench.engine.config.context == 300


async def test_for_one_pair_alone() -> None:
    config.save({"top_k": 9})
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        screen.query_one("#scope", Select).value = "starter"
        await until(pilot, lambda: not row(screen, "theme").display)
        await shows(pilot, bench.app, "#row-top_k .setting-source", "set for all pairs")
        await write(pilot, screen, "temperature", "0.1")
        assert config.load().of(Scope("pair", "starter")) == {"temperature": 0.1}
        assert config.load().values == {"top_k": 9}
        await pilot.press("escape")
        await until(pilot, lambda: bench.app.settings.temperature == 0.1)
        assert bench.app.settings.top_k == 9


async def test_taking_back_gives_the_layer_below() -> None:
    config.save({"temperature": 0.5})
    config.save({"temperature": 0.1}, Scope("pair", "starter"))
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        screen.query_one("#scope", Select).value = "starter"
        await until(pilot, lambda: row(screen, "temperature").query_one(Input).value == "0.1")
        row(screen, "temperature").query_one(Input).focus()
        await pilot.press("ctrl+r")
        await until(pilot, lambda: row(screen, "temperature").query_one(Input).value == "0.5")
        assert config.load().pairs.get("starter", {}) == {}


async def test_presets_are_saved_used_and_deleted() -> None:
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        await write(pilot, screen, "temperature", "0")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(bench.app.screen.query("#line")) == 1)
        await pilot.press(*"[b]exact", "enter")
        await until(pilot, lambda: "[b]exact" in config.load().presets)
        kept = config.load().of(Scope("preset", "[b]exact"))
        assert kept["temperature"] == 0.0
        assert "context" not in kept, "what belongs to the machine is no part of a preset"
        await write(pilot, screen, "temperature", "1")
        screen.query_one("#use", Button).press()
        await until(pilot, lambda: config.load().values["temperature"] == 0.0)
        screen.query_one("#delete", Button).press()
        await until(pilot, lambda: len(bench.app.screen.query("#yes")) == 1)
        bench.app.screen.query_one("#yes", Button).press()
        await until(pilot, lambda: config.load().presets == {})


async def test_a_theme_is_seen_at_once_and_kept() -> None:
    bench = bench_with_config()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await open_settings(bench, pilot)
        row(screen, "theme").query_one(Select).value = "localspec-light"
        await until(pilot, lambda: bench.app.theme == "localspec-light")
        assert config.load().values["theme"] == "localspec-light"


async def test_the_system_prompt_may_have_several_lines() -> None:
    bench = bench_with_config()
    async with bench.app.run_test(size=(100, 130)) as pilot:
        screen = await open_settings(bench, pilot)
        editor = row(screen, "system").query_one(TextArea)
        editor.focus()
        editor.text = "Be brief.\n[/] Use Python."
        await pilot.press("tab")
        await until(pilot, lambda: config.load().values.get("system") == "Be brief.\n[/] Use Python.")


async def test_a_broken_config_is_named_and_never_overwritten() -> None:
    """T11"""
    file = paths.config_file()
    file.parent.mkdir(parents=True)
    file.write_text("temperature = = 1\n", encoding="utf-8")
    bench = bench_with_config()
    async with bench.app.run_test(size=(100, 30), notifications=True) as pilot:
        screen = await open_settings(bench, pilot)
        await shows(pilot, bench.app, "#settings-problem-lines", "config.toml:1")
        await write(pilot, screen, "top_k", "3")
        await until(pilot, lambda: len(bench.app._notifications) == 1)
        assert "cannot be changed before it is correct" in next(iter(bench.app._notifications)).message
        assert file.read_text(encoding="utf-8") == "temperature = = 1\n"
