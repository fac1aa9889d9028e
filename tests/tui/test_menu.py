"""The model menu and the first run, with downloads whose every step the test decides."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input

from localspec.chat import config
from localspec.chat.pairing import Choice
from localspec.chat.settings import Settings
from localspec.models import catalog, consent, own
from localspec.tui.screens.base import hand_over, stands
from localspec.tui.screens.menu import MenuScreen
from localspec.tui.screens.samples import SAMPLES, SamplesScreen
from tests.fake_engine import Script, plain
from tests.tiny import vocabulary, write_llama, write_step
from tests.tui.helpers import Bench, until
from tests.tui.menus import ScriptedPull, fails, moved, nothing_here, own_menu, said, shows, write_menu

pytestmark = pytest.mark.usefixtures("menu")

TARGET, DRAFT = 1_117_320_768, 491_400_064


async def open_menu(bench: Bench, pilot: Pilot[Any]) -> MenuScreen:
    await pilot.press("f3")
    return await menu_read(bench, pilot)


async def menu_read(bench: Bench, pilot: Pilot[Any]) -> MenuScreen:
    await until(pilot, lambda: isinstance(bench.app.screen, MenuScreen), "the menu is open")
    screen = bench.app.screen
    assert isinstance(screen, MenuScreen)
    await until(pilot, lambda: screen._known.machine is not None, "the menu was read")
    return screen


def line(screen: MenuScreen, name: str) -> list[str]:
    """The cells of a pair's line."""
    table = screen.query_one(DataTable)
    return [str(cell) for cell in table.get_row_at(screen._shown.index(name))]


async def test_first_run_three_keys_to_an_answer() -> None:
    """Enter fetches the starter, Enter sends the first sample; the third key is for looking at it."""
    pull = ScriptedPull([moved("starter-target", 558_660_384, TARGET), moved("starter-target", TARGET, TARGET)])
    here: list[str] = []

    def choose(spec: str | None, draft: str | None, settings: Any) -> Any:
        if not here:
            return nothing_here(spec, draft, settings)
        return working.chosen(spec, draft, settings)

    working = Bench()
    bench = Bench([Script(plain("An", " answer"))], choose=choose, pull=pull)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await menu_read(bench, pilot)
        assert screen.first_run
        assert screen.chosen == "starter"
        await shows(pilot, bench.app, "#welcome", "Press Enter to fetch")
        await pilot.press("enter")
        await until(pilot, lambda: pull.asked == [("starter",)])
        pull.step()
        await until(pilot, lambda: line(screen, "starter")[2] == "35%")
        await shows(pilot, bench.app, "#downloads", "559 MB of 1.6 GB")
        await shows(pilot, bench.app, "#downloads", "12 MB/s")
        here.append("starter")
        pull.step(2)
        await until(pilot, lambda: isinstance(bench.app.screen, SamplesScreen), "the samples are shown")
        await until(pilot, lambda: bench.app.engine.phase == "ready")
        await pilot.press("enter")
        await until(pilot, lambda: len(bench.engine.requests) == 1)
        prompt = "".join(segment.text for segment in bench.engine.requests[0].prompt)
        assert SAMPLES[0].prompt in prompt
        await until(pilot, lambda: config.load().values.get("pair") == "starter")


async def test_a_sample_waits_for_the_model_and_then_is_sent() -> None:
    loaded = threading.Event()
    bench = Bench(load=lambda: loaded.wait(20))
    async with bench.app.run_test(size=(80, 24)) as pilot:
        bench.app.push_screen(SamplesScreen())
        await until(pilot, lambda: isinstance(bench.app.screen, SamplesScreen))
        await pilot.press("down", "enter")
        await shows(pilot, bench.app, "#samples-state", "sent when that is done")
        assert bench.engine.requests == []
        loaded.set()
        await until(pilot, lambda: len(bench.engine.requests) == 1)
        assert SAMPLES[1].prompt in "".join(segment.text for segment in bench.engine.requests[0].prompt)


async def test_cancel_says_what_is_kept_and_enter_goes_on() -> None:
    """D5: at 30 %."""
    pull = ScriptedPull([moved("starter-target", 482_616_249, TARGET), moved("starter-target", TARGET, TARGET)])
    bench = Bench(pull=pull)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        await open_menu(bench, pilot)
        await pilot.press("enter")
        pull.step()
        await shows(pilot, bench.app, "#downloads", "30%")
        await pilot.press("x")
        await shows(pilot, bench.app, "#downloads", "cancelled; what was fetched is kept")
        assert pull.cancelled == 1
        await pilot.press("enter")
        await until(pilot, lambda: len(pull.asked) == 2)
        await pilot.press("x")
        await until(pilot, lambda: pull.cancelled == 2)


async def test_a_chat_goes_on_while_a_model_is_fetched() -> None:
    pull = ScriptedPull([moved("starter-target", 100, TARGET)])
    bench = Bench([Script(plain("Hello", "."))], pull=pull)
    async with bench.app.run_test(size=(80, 24), notifications=True) as pilot:
        await bench.ready(pilot)
        await open_menu(bench, pilot)
        await pilot.press("p")
        await until(pilot, lambda: pull.asked == [("starter",)])
        await pilot.press("escape", *"hi", "enter")
        await until(pilot, lambda: len(bench.engine.requests) == 1)
        await until(pilot, lambda: bench.app.engine.phase == "ready")
        loaded = len(bench.engines)
        pull.step()
        await shows(pilot, bench.app, "#fetching", "starter", "0% · 100 bytes of 1.6 GB")
        pull.step()
        await until(pilot, lambda: bench.app.downloads.get("starter").phase == "done")
        await until(pilot, lambda: not bench.app.chat.query_one("#fetching").display)
        await until(pilot, lambda: any("F3 and Enter" in one.message for one in bench.app._notifications))
        assert len(bench.engines) == loaded, "what arrives does not take the place of the model in use"


async def test_a_failed_download_says_why_and_the_menu_goes_on() -> None:
    pull = ScriptedPull([said("starter-target", "asking hub.example.com"), fails(OSError(28, "No space left"))])
    bench = Bench(pull=pull)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        screen = await open_menu(bench, pilot)
        await pilot.press("enter")
        pull.step()
        await shows(pilot, bench.app, "#downloads", "asking hub.example.com")
        pull.step()
        await shows(pilot, bench.app, "#downloads", "No space left")
        assert line(screen, "starter")[2] == "no"


async def test_two_downloads_come_one_after_the_other() -> None:
    pull = ScriptedPull()
    bench = Bench(pull=pull)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        await open_menu(bench, pilot)
        await pilot.press("p", "down", "p")
        await shows(pilot, bench.app, "#downloads", "waits for the download before it")
        assert pull.asked == [("starter",)]
        pull.step()
        await until(pilot, lambda: pull.asked == [("starter",), ("huge",)])
        pull.step()
        await until(pilot, lambda: bench.app.downloads.current is None)


async def test_enter_on_what_is_here_switches_and_keeps_the_chat(tmp_path: Path) -> None:
    """P8: the chat's text stays, the next answer is the new pair's."""
    own.add("mine", write_llama(tmp_path / "tiny.gguf"))
    bench = Bench([Script(plain("Hello", "."))])
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        await pilot.press(*"hi", "enter")
        await until(pilot, lambda: len(bench.engine.requests) == 1)
        await until(pilot, lambda: bench.app.engine.phase == "ready")
        screen = await open_menu(bench, pilot)
        assert line(screen, "mine")[2] == "yes"
        await pilot.press("down", "down", "down", "down", "up")
        assert screen.chosen == "mine"
        await pilot.press("enter")
        await until(pilot, lambda: bench.asked[-1] == "mine")
        await until(pilot, lambda: bench.app.engine.phase == "ready")
        assert bench.app.screen is bench.app.chat
        await pilot.press(*"more", "enter")
        await until(pilot, lambda: len(bench.engine.requests) == 1)
        prompt = "".join(segment.text for segment in bench.engine.requests[-1].prompt)
        assert "hi" in prompt
        assert "Hello." in prompt


async def test_search_narrows_and_the_details_follow() -> None:
    bench = Bench()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        screen = await open_menu(bench, pilot)
        assert screen._shown == ["starter", "huge", "alone"]
        await pilot.press("slash", *"larger")
        await until(pilot, lambda: screen._shown == ["huge"])
        await shows(pilot, bench.app, "#details-title", "Huge 70B")
        await pilot.press("enter")
        assert isinstance(bench.app.focused, DataTable)
        screen.query_one("#search", Input).value = "nothing like it"
        await shows(pilot, bench.app, "#details", "Nothing matches")


async def test_details_say_fit_pair_and_licence_in_words() -> None:
    """T2: a note with markup in it is shown as it is."""
    bench = Bench()
    async with bench.app.run_test(size=(120, 50)) as pilot:
        await bench.ready(pilot)
        await open_menu(bench, pilot)
        await shows(
            pilot, bench.app, "#details",
            "fits: with 4,096 tokens of context it needs", "the same vocabulary, checked by us",
            "1.9x on a laptop (someone)",
        )  # fmt: skip
        await pilot.press("down")
        await shows(
            pilot, bench.app, "#details",
            "does not fit this machine", "It does not fit, so it will not run well.",
            "same family and vocabulary size", "[@click=app.quit]not markup[/] a[i]",
        )  # fmt: skip
        assert bench.app.is_running


async def test_a_licence_that_asks_is_asked_before_anything_is_fetched() -> None:
    agreed: list[bool] = []

    def ask(_: ScriptedPull, given: dict[str, Any]) -> None:
        agreed.append(given["consent"](catalog.load().files["huge"]))
        if not agreed[-1]:
            raise consent.ConsentNeeded(catalog.load().files["huge"])

    pull = ScriptedPull([ask])
    bench = Bench(pull=pull)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        await open_menu(bench, pilot)
        await pilot.press("down", "enter")
        pull.step()
        await until(pilot, lambda: len(bench.app.screen.query("#yes")) == 1, "the question is asked")
        await shows(pilot, bench.app, "#question", "Llama 3.3")
        await pilot.press("escape")
        await until(pilot, lambda: agreed == [False])
        await shows(pilot, bench.app, "#downloads", "asks for consent")
        await pilot.press("enter")
        pull.step(2)
        await until(pilot, lambda: len(bench.app.screen.query("#yes")) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: agreed == [False, True])
        await until(pilot, lambda: bench.app.downloads.get("huge").phase == "done")


async def test_quitting_while_a_licence_is_asked_leaves_no_thread_waiting() -> None:
    """T6."""
    ended: list[bool] = []

    def ask(_: ScriptedPull, given: dict[str, Any]) -> None:
        ended.append(given["consent"](catalog.load().files["huge"]))
        assert given["cancel"].is_set()

    pull = ScriptedPull([ask])
    bench = Bench(pull=pull)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ready(pilot)
        await open_menu(bench, pilot)
        await pilot.press("enter")
        pull.step()
        await until(pilot, lambda: len(bench.app.screen.query("#yes")) == 1)
    assert ended == [False]


async def test_adding_a_file_of_ones_own(tmp_path: Path) -> None:
    target, draft = write_llama(tmp_path / "My Model.Q8_0.gguf"), write_llama(tmp_path / "twin.gguf", seed=2)
    bench = Bench()
    async with bench.app.run_test(size=(100, 30)) as pilot:
        await bench.ready(pilot)
        screen = await open_menu(bench, pilot)
        await pilot.press("a")
        await until(pilot, lambda: len(bench.app.screen.query("#target")) == 1)
        dialog = bench.app.screen
        dialog.query_one("#target", Input).value = str(target)
        dialog.query_one("#draft", Input).value = str(draft)
        await until(pilot, lambda: dialog.query_one("#name", Input).value == "my-model.q8_0")
        await pilot.press("enter")
        await until(pilot, lambda: bench.app.screen is screen and screen.chosen == "my-model.q8_0")
        assert line(screen, "my-model.q8_0")[2] == "yes"
        await shows(pilot, bench.app, "#details", "checked here, token by token")


@pytest.mark.parametrize(
    ("target", "draft", "name", "words"),
    [
        ("", "", "x", "name a target"),
        ("{folder}/none.gguf", "", "x", "there is no such file"),
        ("{folder}/tiny.gguf", "", "a b", "cannot be a name"),
        ("{folder}/tiny.gguf", "", "starter", "on the menu already"),
        ("{folder}/tiny.gguf", "{folder}/stranger.gguf", "x", "are no pair"),
        ("{folder}/[/b]text.gguf", "", "x", "[/b]text.gguf"),
    ],
)
async def test_what_cannot_be_added_is_said_in_the_dialog(
    tmp_path: Path, target: str, draft: str, name: str, words: str
) -> None:
    """T2, D4."""
    write_llama(tmp_path / "tiny.gguf")
    tokens = vocabulary()
    tokens[7] = ("z", tokens[7][1])
    write_llama(tmp_path / "stranger.gguf", tokens=tokens)
    bench = Bench()
    async with bench.app.run_test(size=(100, 30)) as pilot:
        await bench.ready(pilot)
        await open_menu(bench, pilot)
        await pilot.press("a")
        await until(pilot, lambda: len(bench.app.screen.query("#target")) == 1)
        dialog = bench.app.screen
        dialog.query_one("#target", Input).value = target.format(folder=tmp_path)
        dialog.query_one("#draft", Input).value = draft.format(folder=tmp_path)
        await pilot.pause()
        dialog.query_one("#name", Input).value = name
        await pilot.press("enter")
        await shows(pilot, bench.app, "#fault", words)
        assert bench.app.screen is dialog


async def test_adding_a_hub_repository_fetches_it_first(tmp_path: Path) -> None:
    from localspec import paths

    def arrive(_: ScriptedPull, given: dict[str, Any]) -> None:
        folder = paths.models_dir() / "someone" / "Model-GGUF"
        folder.mkdir(parents=True)
        write_llama(folder / "model-Q4_K_M.gguf")

    pull = ScriptedPull([arrive])
    bench = Bench(pull=pull)
    async with bench.app.run_test(size=(100, 30)) as pilot:
        await bench.ready(pilot)
        screen = await open_menu(bench, pilot)
        await pilot.press("a", *"someone/Model-GGUF:Q4_K_M", "enter")
        await until(pilot, lambda: pull.asked == [("someone/Model-GGUF:Q4_K_M",)])
        await shows(pilot, bench.app, "#downloads", "model")
        pull.step(2)
        await until(pilot, lambda: "model-gguf-q4_k_m" in screen._shown, "it is on the menu")
        assert line(screen, "model-gguf-q4_k_m")[2] == "yes"


async def test_taking_ones_own_entry_off_the_menu_asks_first(tmp_path: Path) -> None:
    file = write_llama(tmp_path / "tiny.gguf")
    own.add("mine", file)
    bench = Bench()
    async with bench.app.run_test(size=(100, 30)) as pilot:
        await bench.ready(pilot)
        screen = await open_menu(bench, pilot)
        await pilot.press("down", "down")
        assert screen.chosen == "mine"
        await pilot.press("d")
        await until(pilot, lambda: len(bench.app.screen.query("#no")) == 1)
        assert bench.app.focused is bench.app.screen.query_one("#no")
        await pilot.press("enter")
        await until(pilot, lambda: bench.app.screen is screen)
        assert "mine" in screen._shown
        await pilot.press("d")
        await until(pilot, lambda: len(bench.app.screen.query("#yes")) == 1)
        await pilot.press("tab", "enter") if bench.app.focused.id != "yes" else await pilot.press("enter")
        await until(pilot, lambda: bench.app.screen is screen and "mine" not in screen._shown)
        assert file.exists(), "a file that localspec did not fetch stays"


async def test_the_menu_and_the_chat_say_that_a_file_carries_heads(tmp_path: Path) -> None:
    own.add("mine", write_step(tmp_path / "heads.gguf"))

    def heads(spec: str | None, draft: str | None, settings: Settings) -> Choice:
        config = replace(settings.engine_config("target.gguf", None, None), drafter="mtp")
        return Choice(config, "auto", name=spec or "starter")

    bench = Bench(choose=heads)
    async with bench.app.run_test(size=(160, 40)) as pilot:
        await bench.ready(pilot)
        await shows(pilot, bench.app, "#pair", "+ MTP head")
        screen = await open_menu(bench, pilot)
        await pilot.press("down", "down")
        assert screen.chosen == "mine"
        await shows(pilot, bench.app, "#details", "the target carries 3 MTP heads: it drafts for itself")


@pytest.mark.parametrize("text", [b"", b"[files.a\nname = 1\n", b"\xff\xfe broken", b"pairs = 3\n"])
async def test_a_broken_menu_is_named_and_the_screen_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes
) -> None:
    """T11: file, line and reason; adding a file of one's own still works."""
    write_menu(monkeypatch, tmp_path, "").write_bytes(text)
    model = write_llama(tmp_path / "tiny.gguf")
    bench = Bench(choose=nothing_here)
    async with bench.app.run_test(size=(100, 30)) as pilot:
        screen = await menu_read(bench, pilot)
        await shows(pilot, bench.app, "#problem-lines", "models.toml")
        await pilot.press("a", *"x", "escape")
        await until(pilot, lambda: bench.app.screen is screen)
        own.add("mine", model)
        await pilot.press("r")
        await until(pilot, lambda: screen._shown == ["mine"])


async def test_one_bad_entry_hides_no_other() -> None:
    """T11."""
    own_menu('[files.bad]\nsize = "many"\n[pairs.lost]\ntarget = "nowhere"\n[pairs.starter]\nwhat = 1\n')
    bench = Bench()
    async with bench.app.run_test(size=(120, 30)) as pilot:
        await bench.ready(pilot)
        screen = await open_menu(bench, pilot)
        assert screen._shown == ["starter", "huge", "alone"]
        await shows(pilot, bench.app, "#problem-lines", ":2: files.bad.size", ":4: pairs.lost.target")


async def test_the_last_used_model_is_gone() -> None:
    """T11: the menu opens, says so, and everything else is there."""
    config.save({"pair": "gone"})
    bench = Bench(choose=nothing_here, config=config.load())
    async with bench.app.run_test(size=(80, 24)) as pilot:
        screen = await menu_read(bench, pilot)
        assert not screen.first_run
        await shows(pilot, bench.app, "#problem-lines", "not on this disk")
        await pilot.press("escape")
        await until(pilot, lambda: bench.app.screen is bench.app.chat)


async def test_what_arrives_when_the_screen_has_gone_is_dropped() -> None:
    """T6: a worker that ends late finds no parts to write to; it must not bring the app down."""
    bench = Bench()
    seen: list[str] = []
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        screen = await open_menu(bench, pilot)
        await asyncio.to_thread(hand_over, screen, seen.append, "while it stands")
        await pilot.press("escape")
        await until(pilot, lambda: not stands(screen), "the menu has gone")
        await asyncio.to_thread(hand_over, screen, seen.append, "after it went")
    assert seen == ["while it stands"]
