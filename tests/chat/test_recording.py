"""Answers on their way into the history. S4, T6."""

from collections.abc import Iterator

import pytest

from localspec.chat.errors import HistoryError
from localspec.chat.history import History
from localspec.chat.recording import EVERY_S, Recorder
from localspec.chat.splitting import Part
from localspec.chat.turns import Turn
from localspec.engine.events import Cycle, Event, Finished, Started, Token
from tests.chat.chats import TEXT, answer, events, question, without_id
from tests.fake_engine import Say, Script, plain


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def history() -> Iterator[History]:
    opened = History.open()
    yield opened
    opened.close()


def play(recorder: Recorder, some: list[Event]) -> None:
    for event in some:
        match event:
            case Started():
                recorder.started(event)
            case Token():
                recorder.part(Part(event, event.text))
            case Cycle():
                recorder.cycle(event)
            case Finished():
                recorder.finished(event)


def begin(history: History) -> tuple[int, int]:
    chat = history.create()
    return chat.id, history.add(chat.id, question("?"), None)


def test_a_whole_answer(history: History) -> None:
    chat, asked = begin(history)
    recorder = Recorder(history, chat, asked)
    play(recorder, events())
    kept = history.turns(chat)[-1]
    assert kept == recorder.turn
    assert without_id(kept) == answer()
    assert recorder.problem is None


def test_it_is_kept_about_once_a_second_and_at_the_end(history: History) -> None:
    chat, asked = begin(history)
    clock = Clock()
    recorder = Recorder(history, chat, asked, clock=clock)
    some = events(Script(plain("a", "b", "c", "d")))
    play(recorder, some[:4])
    assert [(turn.text, turn.broken) for turn in history.turns(chat)[1:]] == [("", True)]
    clock.now += EVERY_S
    play(recorder, some[4:6])
    assert history.turns(chat)[-1].text == "abc"
    assert history.turns(chat)[-1].parts == recorder.turn.parts
    play(recorder, some[6:])
    assert history.turns(chat)[-1].text == "abcd"
    assert not history.turns(chat)[-1].broken


def test_a_refused_request_leaves_no_answer(history: History) -> None:
    chat, asked = begin(history)
    Recorder(history, chat, asked).broken()
    assert [turn.role for turn in history.turns(chat)] == ["user"]


def test_an_answer_that_breaks_keeps_its_text(history: History) -> None:
    chat, asked = begin(history)
    recorder = Recorder(history, chat, asked)
    play(recorder, events()[:6])
    recorder.broken()
    kept = history.turns(chat)[-1]
    assert kept.broken
    assert kept.text
    assert kept.parts == recorder.turn.parts


def test_a_stopped_answer_goes_on(history: History) -> None:
    chat, asked = begin(history)
    stopped = Recorder(history, chat, asked)
    play(stopped, events(Script([*plain("one "), Say(["two "], end=("bonus", "three "))], reason="cancelled")))
    found = history.turns(chat)[-1]
    assert found.stopped
    more = Recorder(history, chat, asked, found)
    play(more, events(Script([*plain("four "), Say(["five "], end=("bonus", "six"))])))
    kept = history.turns(chat)[-1]
    assert kept.text == "one two three four five six"
    assert (kept.id, kept.reason) == (found.id, "end_of_text")
    assert [cycle.cycle for cycle in kept.cycles] == [1, 2]
    assert [part.token.cycle for part in kept.parts] == [0, 1, 1, 0, 2, 2]


def test_a_history_that_fails_costs_the_keeping_not_the_answer(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, asked = begin(history)

    def fail(*_: object) -> None:
        raise HistoryError("the disk is full")

    monkeypatch.setattr(history, "save", fail)
    recorder = Recorder(history, chat, asked)
    play(recorder, events())
    assert recorder.turn.text == TEXT
    assert recorder.problem == "the disk is full"


def test_a_thought_is_kept_apart(history: History) -> None:
    chat, asked = begin(history)
    recorder = Recorder(history, chat, asked)
    some = events(Script(plain("hm", "so")))
    recorder.started(next(event for event in some if isinstance(event, Started)))
    tokens = [event for event in some if isinstance(event, Token)]
    recorder.part(Part(tokens[0], "", "hm"))
    recorder.part(Part(tokens[1], "so"))
    recorder.finished(next(event for event in some if isinstance(event, Finished)))
    assert history.turns(chat)[-1] == Turn(
        "assistant", "so", "hm", recorder.turn.parts, recorder.turn.cycles, recorder.turn.started, "end_of_text",
        recorder.turn.stats, id=recorder.turn.id,
    )  # fmt: skip
