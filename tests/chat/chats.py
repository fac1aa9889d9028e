"""Answers for the history's tests, as an engine would stream them."""

from dataclasses import replace

from localspec.chat.history import History
from localspec.chat.splitting import Part
from localspec.chat.turns import Turn
from localspec.engine.events import Cycle, Event, Finished, Started, Token
from localspec.engine.requests import EngineConfig, Request, Segment
from tests.fake_engine import FakeEngine, Say, Script, plain

SCRIPT = Script(
    [
        *plain("def "),
        Say(["merge", "("], end=("bonus", "a")),
        Say([", b"], end=("resampled", "):"), drafter="draft", proposed=3),
        *plain("\n\t", "é漢👩‍👩‍👧", ""),
        Say(end=("resampled", "\x1b[2J[/red]<b>&"), drafter="draft"),
    ]
)
"""Every kind, both drafters, an empty token, wide characters, and text that is nobody's markup."""

TEXT = "def merge(a, b):\n\té漢👩‍👩‍👧\x1b[2J[/red]<b>&"


def events(script: Script = SCRIPT) -> list[Event]:
    return list(FakeEngine(EngineConfig("target.gguf"), scripts=[script]).generate(Request((Segment("?"),))))


def answer(script: Script = SCRIPT, thoughts: str = "") -> Turn:
    """A finished answer; `thoughts` came as one token before it."""
    turn = Turn("assistant", thoughts=thoughts)
    if thoughts:
        turn.parts.append(Part(Token(99, thoughts, "plain", "none", 0, 0.01), "", thoughts))
    for event in events(script):
        match event:
            case Started():
                turn.started = event
            case Token():
                turn.parts.append(Part(event, event.text))
                turn.text += event.text
            case Cycle():
                turn.cycles.append(event)
            case Finished():
                turn.reason, turn.stats = event.reason, event.stats
    return turn


def question(text: str) -> Turn:
    return Turn("user", text)


def chat_of(history: History, *questions: str, title: str = "") -> int:
    """A chat in which each question got the scripted answer; its number."""
    chat = history.create(title=title, target="starter")
    parent = None
    for text in questions:
        parent = history.add(chat.id, question(text), parent)
        parent = history.add(chat.id, answer(), parent)
    return chat.id


def without_id(turn: Turn) -> Turn:
    return replace(turn, id=None)
