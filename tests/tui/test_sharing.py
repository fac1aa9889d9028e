"""The app's engine for commands: found while the app is open, one answer at a time, the person's own first."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from localspec.chat.settings import Settings
from localspec.engine.events import Finished
from localspec.engine.requests import Request, Segment
from localspec.server import embedded, remote, runtime
from localspec.server.remote import RemoteEngine
from localspec.tui.messages import SettingsChanged
from tests.fake_engine import Script, Wait, plain
from tests.tui.helpers import Bench, until

QUESTION = Request((Segment("from a command"),))


async def found(pilot: Pilot[Any], bench: Bench) -> RemoteEngine:
    """The app's engine as a command finds it."""
    await bench.ready(pilot)
    await until(pilot, lambda: bench.app.keeper.sharing.port, "the engine is shared")
    engine = await asyncio.to_thread(remote.find, None)
    assert engine is not None
    return engine


class Asked:
    """A command's question in a thread."""

    def __init__(self, engine: RemoteEngine) -> None:
        self.engine = engine
        self.ends: list[Finished] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        self.ends += [event for event in self.engine.generate(QUESTION) if isinstance(event, Finished)]


def head(bench: Bench) -> str:
    return str(bench.app.chat.query_one("#state", Static).content)


def asked_in_order(bench: Bench) -> list[str]:
    return ["".join(segment.text for segment in request.prompt) for request in bench.engine.requests]


async def test_a_command_is_answered_by_the_apps_engine() -> None:
    wait = Wait()
    bench = Bench([Script([*plain("For ", "you"), wait])], share=True)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        engine = await found(pilot, bench)
        assert engine.running.owner == "app"
        asked = Asked(engine)
        await until(pilot, lambda: head(bench) == "answering for a command")
        wait.release.set()
        await until(pilot, lambda: asked.ends)
        assert asked.ends[0].text == "For you"
        await until(pilot, lambda: head(bench) == "ready")
        assert bench.app.chat.desk.talk.turns == []
    assert list(runtime.running()) == []


async def test_the_persons_own_question_goes_before_all_that_wait() -> None:
    first = Wait()
    bench = Bench([Script([*plain("one"), first]), Script(plain("own")), Script(plain("two"))], share=True)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        engine = await found(pilot, bench)
        running = Asked(engine)
        await until(pilot, first.reached.is_set)
        other = await asyncio.to_thread(remote.find, None)
        assert other is not None
        waiting = Asked(other)
        await until(pilot, lambda: bench.app.keeper.sharing.turns.waiting == 1)
        await until(pilot, lambda: bench.app.engine.lent)
        await bench.type(pilot, "my own")
        await until(pilot, lambda: head(bench) == "answering for a command, then you")
        first.release.set()
        await until(pilot, lambda: running.ends and waiting.ends)
        await until(pilot, lambda: bench.app.chat.desk.answer is None)
        command, own, last = asked_in_order(bench)
        assert "my own" in own
        assert command == last == "from a command"
        assert [turn.text for turn in bench.app.chat.desk.talk.turns] == ["my own", "own"]
        assert waiting.ends[0].text == "two"


async def test_a_question_that_waits_can_be_stopped_and_the_commands_answer_goes_on() -> None:
    wait = Wait()
    bench = Bench([Script([*plain("one"), wait])], share=True)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        asked = Asked(await found(pilot, bench))
        await until(pilot, lambda: bench.app.engine.lent)
        await bench.type(pilot, "my own")
        await until(pilot, lambda: bench.app.keeper.sharing.turns.waiting == 1)
        await pilot.press("escape")
        await until(pilot, lambda: "back in the prompt" in bench.notice)
        assert bench.prompt.text == "my own"
        assert bench.app.chat.desk.talk.turns == []
        wait.release.set()
        await until(pilot, lambda: asked.ends)
        assert asked.ends[0].reason == "end_of_text"


async def test_another_model_ends_what_was_shared_and_is_shared_itself() -> None:
    from localspec.tui.messages import PairChosen

    wait = Wait()
    bench = Bench([Script([*plain("one"), wait])], share=True)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        asked = Asked(await found(pilot, bench))
        await until(pilot, wait.reached.is_set)
        port = bench.app.keeper.sharing.port
        bench.app.post_message(PairChosen("other"))
        await until(pilot, lambda: asked.ends)
        assert asked.ends[0].reason == "cancelled"
        await until(pilot, lambda: bench.app.keeper.sharing.port not in (None, port))
        engine = await found(pilot, bench)
        assert engine.running.name == "other"
        assert not bench.app.engine.lent


async def test_a_person_can_switch_it_off_and_on() -> None:
    bench = Bench(share=True)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await found(pilot, bench)
        bench.app.post_message(SettingsChanged(Settings(share_engine=False)))
        await until(pilot, lambda: bench.app.keeper.sharing.port is None)
        assert await asyncio.to_thread(remote.find, None) is None
        bench.app.post_message(SettingsChanged(Settings(share_engine=True)))
        await found(pilot, bench)


async def test_it_is_not_shared_when_the_settings_say_so() -> None:
    bench = Bench(settings=Settings(share_engine=False), share=True)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await bench.ask(pilot, "hi")
        assert bench.app.keeper.sharing.port is None
        assert list(runtime.running()) == []


@contextmanager
def no_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(98, "Address already in use")

    with monkeypatch.context() as patch:
        patch.setattr(embedded, "start", refuse)
        yield


async def test_a_server_that_does_not_start_is_a_line_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    with no_server(monkeypatch):
        bench = Bench(share=True)
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.ask(pilot, "hi")
            lines = [entry.text for entry in bench.app.journal.after(0)]
            await until(pilot, lambda: any("Address already in use" in line for line in lines))
            assert bench.notice == ""


def test_the_screen_does_not_wait_for_the_server() -> None:
    """Nothing of a web server is loaded with the app, only once a model is there."""
    import subprocess
    import sys

    code = "import sys, localspec.tui.screens.chat; print([n for n in ('starlette', 'uvicorn') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "[]"
