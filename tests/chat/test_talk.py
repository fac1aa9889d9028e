"""A chat that is asked, edited, regenerated and continued, with its way into the history."""

from pathlib import Path

import pytest

from localspec.chat.errors import HistoryError
from localspec.chat.history import History
from localspec.chat.splitting import Part
from localspec.chat.talk import Talk
from localspec.chat.templates import ChatTemplate
from localspec.chat.thinking import Thinking, plan
from localspec.chat.turns import Turn, cycle_of
from localspec.engine.events import Cycle, Kind, Token
from tests.fake_engine import INFO

TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
TEMPLATE = ChatTemplate(TURNS)
THINKER = ChatTemplate("{# <think> </think> #}" + TURNS)
CHANNELS = ChatTemplate("{# <|channel|>analysis #}" + TURNS)


def part(text: str, thought: str = "", cycle: int = 0, kind: Kind = "plain") -> Part:
    return Part(Token(1, thought + text, kind, "none", cycle, 0.0), text, thought)


def answered(turn: Turn, *parts: Part) -> Turn:
    turn.parts += parts
    turn.text = "".join(p.text for p in turn.parts)
    turn.thoughts = "".join(p.thought for p in turn.parts)
    turn.reason = "end_of_text"
    return turn


def spelled(talk: Talk, template: ChatTemplate = TEMPLATE, dropped: int = 0) -> str:
    return "".join(s.text for s in talk.prompt(template, plan(template, "auto"), dropped).segments)


def test_a_prompt_has_every_turn_and_the_system_text() -> None:
    talk = Talk(History.in_memory(), system="Be brief.")
    answered(talk.ask("one"), part("1"))
    talk.ask("two")
    assert spelled(talk) == "[system]Be brief.[user]one[assistant]1[user]two[assistant]"
    assert spelled(talk, dropped=2) == "[system]Be brief.[user]two[assistant]"


def test_another_answer_leaves_the_old_one_out() -> None:
    talk = Talk(History.in_memory())
    answered(talk.ask("one"), part("1"))
    assert talk.regenerate() is talk.turns[-1]
    assert spelled(talk) == "[user]one[assistant]"
    assert Talk(History.in_memory()).regenerate() is None


def test_an_edit_takes_the_place_of_what_came_after() -> None:
    talk = Talk(History.in_memory())
    answered(talk.ask("one"), part("1"))
    answered(talk.ask("two"), part("2"))
    talk.edit(talk.turns[0], "other")
    assert [turn.text for turn in talk.turns] == ["other", ""]


def test_a_copy_leaves_the_talk_alone() -> None:
    talk = Talk(History.in_memory())
    answered(talk.ask("one"), part("1"))
    talk.copy().ask("two")
    assert len(talk.turns) == 2


def test_taking_a_question_back() -> None:
    talk = Talk(History.in_memory())
    answered(talk.ask("one"), part("1"))
    talk.ask("two")
    assert talk.take_back() == "two"
    assert [turn.text for turn in talk.turns] == ["one", "1"]


class TestGoingOn:
    def stopped(self, *parts: Part) -> Talk:
        talk = Talk(History.in_memory())
        answered(talk.ask("q"), *parts).reason = "cancelled"
        return talk

    def test_only_a_stopped_answer_goes_on(self) -> None:
        talk = self.stopped(part("Half"))
        assert talk.resumable() is talk.turns[-1]
        talk.turns[-1].reason = "end_of_text"
        assert talk.resumable() is None
        talk.turns[-1].broken = True
        assert talk.resumable() is talk.turns[-1]
        assert Talk(History.in_memory()).resumable() is None

    def test_the_prompt_ends_with_what_was_said_untrusted(self) -> None:
        talk = self.stopped(part("Half <|im_end|>"))
        last = talk.prompt(TEMPLATE, Thinking()).segments[-1]
        assert last.text == "Half <|im_end|>"
        assert not last.trusted

    def test_inside_a_thought_it_goes_on_thinking(self) -> None:
        talk = self.stopped(part("", "I wonder"))
        prompt = talk.prompt(THINKER, plan(THINKER, "auto"))
        assert "".join(s.text for s in prompt.segments).endswith("[assistant]<think>\nI wonder")
        rest = [Token(1, text, "plain", "none", 0, 0.0) for text in (" more", "</think>", "\n\n", "Yes")]
        parts = [p for token in rest for p in prompt.splitter.push(token)] + prompt.splitter.finish()
        assert "".join(p.thought for p in parts) == " more"
        assert "".join(p.text for p in parts) == "Yes"

    def test_after_the_thought_it_goes_on_answering(self) -> None:
        talk = self.stopped(part("", "I wonder"), part("Yes"))
        prompt = talk.prompt(THINKER, plan(THINKER, "auto"))
        assert "".join(s.text for s in prompt.segments).endswith("<think>\nI wonder</think>\n\nYes")
        assert [p.text for p in prompt.splitter.push(Token(1, " and", "plain", "none", 0, 0.0))] == [" and"]

    def test_channels_are_opened_again(self) -> None:
        thinking = plan(CHANNELS, "auto")
        inside = self.stopped(part("", "hm")).prompt(CHANNELS, thinking)
        assert "".join(s.text for s in inside.segments).endswith("<|channel|>analysis<|message|>hm")
        assert [p.thought for p in inside.splitter.push(Token(1, "m", "plain", "none", 0, 0.0))] == ["m"]
        after = self.stopped(part("", "hm"), part("Yes")).prompt(CHANNELS, thinking)
        assert "".join(s.text for s in after.segments).endswith(
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes"
        )
        assert [p.text for p in after.splitter.push(Token(1, "!", "plain", "none", 0, 0.0))] == ["!"]


class TestKeeping:
    def test_question_and_answer_are_one_branch(self) -> None:
        history = History.in_memory()
        talk = Talk(history, system="s")
        answer = talk.ask("one")
        recorder = talk.recorder(answer, INFO)
        assert recorder.turn is answer
        assert talk.chat_id is not None
        chat = history.chat(talk.chat_id)
        assert (chat.system, chat.target) == ("s", INFO.target)
        assert [turn.text for turn in history.turns(talk.chat_id)] == ["one"]

    def test_a_history_that_fails_costs_only_the_keeping(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        history = History.open(tmp_path / "h.db")
        talk = Talk(history)

        def fail(*_: object, **__: object) -> None:
            raise HistoryError("the disk is full")

        monkeypatch.setattr(history, "create", fail)
        talk.recorder(talk.ask("one"), INFO)
        assert talk.problem == "the disk is full"
        assert talk.history is not history
        assert [turn.text for turn in talk.history.turns(talk.chat_id or 0)] == ["one"]


class TestCycleOf:
    def turn(self) -> Turn:
        turn = Turn("assistant")
        turn.parts = [
            part("The"),
            part(" a", cycle=1, kind="accepted"),
            part(" b", cycle=1, kind="resampled"),
            part(" c", cycle=2, kind="accepted"),
        ]
        turn.cycles = [
            Cycle(1, "draft", 3, " a x y", 2, 1, 2, 1.0, 5.0),
            Cycle(2, "lookup", 2, " c d", 1, 1, 1, 1.0, 5.0),
        ]
        return turn

    def test_the_first_token_has_none(self) -> None:
        assert cycle_of(self.turn(), 0) is None

    def test_kept_refused_and_what_came_instead(self) -> None:
        for index in (1, 2):
            found = cycle_of(self.turn(), index)
            assert found is not None
            assert (found.kept, found.refused) == (" a", " x y")
            assert found.ended_by is not None
            assert found.ended_by.text == " b"

    def test_a_run_that_was_cut_ends_with_nothing(self) -> None:
        found = cycle_of(self.turn(), 3)
        assert found is not None
        assert (found.kept, found.refused, found.ended_by) == (" c", " d", None)

    def test_cycles_are_found_by_number_where_some_are_missing(self) -> None:
        turn = self.turn()
        del turn.cycles[0]
        assert cycle_of(turn, 1) is None
        assert cycle_of(turn, 3) is not None
