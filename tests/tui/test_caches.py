"""Caches of chats in the app: kept when one leaves a chat, taken up when one comes back. K2, P6, T6."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from localspec import paths
from localspec.chat.history import History
from localspec.chat.pairing import Choice
from localspec.chat.settings import Settings
from localspec.engine.client import EngineClient
from localspec.engine.requests import EngineConfig
from localspec.tui.app import LocalspecApp
from localspec.tui.messages import ChatOpened
from tests.fake_engine import INFO, Script, Wait, plain
from tests.tiny import vocabulary, write_llama
from tests.tui import edits
from tests.tui.helpers import Bench, until

LONG = Script(plain("Hello", "."), prompt_tokens=1000)


@pytest.fixture
def history() -> Iterator[History]:
    opened = History.open()
    yield opened
    opened.close()


def file_of(chat_id: int) -> Path:
    return paths.cache_dir() / "kv" / f"{chat_id}.bin"


async def ask(app: LocalspecApp, pilot: Pilot[Any], text: str) -> int:
    """Asks, and waits for the whole answer; the chat's number."""
    desk = app.chat.desk
    before = len(desk.talk.turns)
    await pilot.press(*text, "enter")
    await until(pilot, lambda: len(desk.talk.turns) == before + 2 and desk.talk.turns[-1].reason, "it was answered")
    await until(pilot, lambda: app.engine.phase == "ready" and desk.answer is None)
    assert desk.talk.chat_id is not None
    return int(desk.talk.chat_id)


async def test_a_chat_that_is_left_is_kept_and_taken_up_again(history: History) -> None:
    bench = Bench([LONG], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        one = await ask(bench.app, pilot, "one")
        assert bench.engine.saved == []
        bench.app.chat.desk.new()
        await until(pilot, lambda: bench.engine.saved == [file_of(one)])
        two = await ask(bench.app, pilot, "two")
        bench.app.post_message(ChatOpened(one))
        await until(pilot, lambda: bench.engine.saved == [file_of(one), file_of(two)])
        await until(pilot, lambda: bench.engine.restored == [file_of(one)])
        assert bench.app.chat.desk.talk.chat_id == one


async def test_after_an_edit_the_engines_caches_are_not_the_chats(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold the edit's own question: kept as the chat's they would only take up room."""
    monkeypatch.chdir(tmp_path)
    edits.write(tmp_path)
    edit = replace(edits.answers(edits.OLD)[0], prompt_tokens=1000)
    bench = Bench([LONG, edit, LONG], history=history, info=replace(INFO, context=4096))
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        await ask(bench.app, pilot, "one")
        await ask(bench.app, pilot, "/edit shelf.py x")
        await until(pilot, lambda: "nothing to change" in bench.notice)
        bench.app.chat.desk.new()
        two = await ask(bench.app, pilot, "two")
        bench.app.chat.desk.new()
        await until(pilot, lambda: bench.engine.saved)
        assert bench.engine.saved == [file_of(two)]


async def test_after_an_answer_for_a_command_they_are_not_either(history: History) -> None:
    bench = Bench([LONG], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        await ask(bench.app, pilot, "one")
        bench.app.keeper._lent(True)
        bench.app.keeper._lent(False)
        await until(pilot, lambda: bench.app.caches._unsaved is None)
        bench.app.chat.desk.new()
        two = await ask(bench.app, pilot, "two")
        bench.app.chat.desk.new()
        await until(pilot, lambda: bench.engine.saved)
        assert bench.engine.saved == [file_of(two)]


async def test_a_chat_is_kept_with_what_loads_its_models_again(history: History) -> None:
    bench = Bench([LONG], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        chat = await ask(bench.app, pilot, "one")
        assert (history.chat(chat).target, history.chat(chat).draft) == ("starter", None)
        bench.app.load_pair("other", None)
        await until(pilot, lambda: len(bench.engines) == 2 and bench.app.engine.phase == "ready")
        await ask(bench.app, pilot, "two")
        assert history.chat(chat).target == "other"


async def test_leaving_the_program_keeps_the_last_chat(history: History) -> None:
    bench = Bench([LONG], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        chat = await ask(bench.app, pilot, "one")
    assert bench.engine.saved == [file_of(chat)]
    assert bench.engine.closed


async def test_leaving_in_the_middle_of_an_answer_waits_for_nothing(history: History) -> None:
    """T6."""
    wait = Wait()
    bench = Bench([LONG, Script([*plain("half"), wait], prompt_tokens=1000)], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        await ask(bench.app, pilot, "one")
        await pilot.press(*"two", "enter")
        await until(pilot, wait.reached.is_set)
    assert bench.engine.saved == []
    assert bench.engine.closed


@pytest.mark.parametrize("how", ["no history", "no budget", "short"])
async def test_nothing_is_kept_when_it_is_not_wanted(history: History, how: str) -> None:
    settings = Settings(kv_disk_gb=0.0 if how == "no budget" else 2.0)
    script = Script(plain("Hello")) if how == "short" else LONG
    kept = History.in_memory() if how == "no history" else history
    bench = Bench([script], settings=settings, history=kept)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        await ask(bench.app, pilot, "one")
        bench.app.chat.desk.new()
        await ask(bench.app, pilot, "two")
    assert bench.engine.saved == []


async def test_a_restarted_engine_takes_the_chat_up(history: History) -> None:
    bench = Bench([LONG], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        one = await ask(bench.app, pilot, "one")
        bench.app.chat.desk.new()
        await until(pilot, lambda: file_of(one).exists())
        bench.app.post_message(ChatOpened(one))
        await until(pilot, lambda: bench.engine.restored == [file_of(one)])
        bench.app.keeper.restart()
        await until(pilot, lambda: len(bench.engines) == 2 and bench.engine.restored == [file_of(one)])


async def test_the_real_engine_reads_only_what_is_new(history: History, tmp_path: Path) -> None:
    model = write_llama(tmp_path / "m.gguf", tokens=vocabulary(26, with_bytes=True), context=4096)

    def chosen(spec: str | None, draft: str | None, settings: Settings) -> Choice:
        config = EngineConfig(str(model), context=2048, threads=1, flash_attn="on")
        return Choice(config, "off", name=str(model))

    settings = Settings(temperature=0.0, max_tokens=8)
    made = {"choose": chosen, "settings": settings, "history": history}
    app = LocalspecApp(EngineClient, **made)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.engine.phase == "ready")
        app.chat.suggest("abc " * 150, send=True)
        await until(pilot, lambda: len(app.chat.desk.talk.turns) == 2 and app.chat.desk.talk.turns[-1].stats)
        await until(pilot, lambda: app.chat.desk.answer is None)
        chat = app.chat.desk.talk.chat_id
    assert file_of(chat).exists()
    first = history.turns(chat)[-1].stats
    assert first is not None
    app = LocalspecApp(EngineClient, **made)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.engine.phase == "ready")
        app.post_message(ChatOpened(chat))
        await until(pilot, lambda: app.chat.desk.talk.chat_id == chat)
        await ask(app, pilot, "more")
        stats = app.chat.desk.talk.turns[-1].stats
        assert stats.prompt_reused >= first.prompt_tokens
