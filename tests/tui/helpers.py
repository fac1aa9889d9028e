"""An app whose engine is scripted, and waiting for facts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from localspec.chat.config import Config
from localspec.chat.pairing import Choice
from localspec.chat.settings import Settings
from localspec.engine.requests import EngineConfig, EngineInfo
from localspec.tui.app import LocalspecApp
from localspec.tui.widgets.livebar import LiveBar
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.transcript import Transcript
from tests.fake_engine import INFO, FakeEngine, Script, plain

DEADLINE_S = 20.0


async def until(pilot: Pilot[Any], fact: Callable[[], object], what: str = "") -> None:
    """Lets the app work until `fact` holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < deadline, f"never came true: {what or fact}"
        await pilot.pause(0.01)


class Bench:
    """What a test holds of its app: the engines that were made, newest last."""

    def __init__(
        self,
        scripts: Sequence[Script] = (Script(plain("Hello", ".")),),
        *,
        settings: Settings | None = None,
        history: Any = None,
        info: EngineInfo = INFO,
        draft: str | None = None,
        choose: Callable[[str | None, str | None, Settings], Choice] | None = None,
        config: Config | None = None,
        pull: Callable[..., Any] | None = None,
        share: bool = False,
        **engine: Any,
    ) -> None:
        self.engines: list[FakeEngine] = []
        self.asked: list[str | None] = []

        def make(config: EngineConfig) -> FakeEngine:
            self.engines.append(FakeEngine(config, scripts=scripts, info=replace(info), **engine))
            return self.engines[-1]

        def chosen(spec: str | None, wanted: str | None, settings: Settings) -> Choice:
            self.asked.append(spec)
            config = settings.engine_config("target.gguf", wanted or draft, None)
            return Choice(config, settings.speculate or "auto", name=spec or "starter")

        self.chosen = chosen
        self.app = LocalspecApp(make, settings, history, choose=choose or chosen, config=config, pull=pull, share=share)

    @property
    def engine(self) -> FakeEngine:
        return self.engines[-1]

    @property
    def transcript(self) -> Transcript:
        return self.app.chat.query_one(Transcript)

    @property
    def prompt(self) -> Prompt:
        return self.app.chat.query_one(Prompt)

    @property
    def shown(self) -> str:
        """The transcript's lines."""
        return self.transcript.text

    @property
    def notice(self) -> str:
        """The line above the prompt."""
        widget = self.app.chat.query_one("#notice", Static)
        return str(widget.content) if widget.display else ""

    async def ready(self, pilot: Pilot[Any]) -> None:
        """The chat is on the screen and the engine can answer."""
        await until(pilot, lambda: hasattr(self.app.chat, "desk"), "the chat is there")
        await until(pilot, lambda: self.app.engine.phase == "ready", "the engine is ready")

    @property
    def bar(self) -> str:
        """The live bar's two lines."""
        return str(self.app.chat.query_one(LiveBar).content)

    async def type(self, pilot: Pilot[Any], text: str) -> None:
        """Asks a question, once the engine can answer."""
        await self.ready(pilot)
        self.prompt.fill(text)
        self.prompt.focus()
        await pilot.press("enter")

    async def ask(self, pilot: Pilot[Any], text: str) -> None:
        """Asks a question and waits until it is answered."""
        await self.ready(pilot)
        before = len(self.app.chat.desk.talk.turns)
        await self.type(pilot, text)
        desk = self.app.chat.desk
        await until(pilot, lambda: len(desk.talk.turns) > before and desk.answer is None, "the answer")
        await self.ready(pilot)
