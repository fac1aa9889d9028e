"""Prompts for a model with an encoder: one text as it is, and refusals in words."""

from dataclasses import replace

import pytest

from localspec.chat.errors import TemplateError
from localspec.chat.history import History
from localspec.chat.splitting import Part
from localspec.chat.talk import Talk
from localspec.chat.templates import ChatTemplate, Message
from localspec.chat.thinking import plan
from localspec.engine.events import Token
from localspec.engine.requests import Segment
from tests.fake_engine import INFO

TEMPLATE = ChatTemplate.of(replace(INFO, has_encoder=True, chat_template="{{ messages }}"))


def test_one_text_as_it_is() -> None:
    assert TEMPLATE.render([Message("user", " a </s> b\n")]) == (Segment(" a </s> b\n"),)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([Message("system", "Be brief."), Message("user", "a")], "a system text has no place in it"),
        ([Message("user", "a"), Message("assistant", "b"), Message("user", "c")], "several turns"),
        ([Message("assistant", "b")], "several turns"),
    ],
)
def test_what_is_no_one_text_is_refused(messages: list[Message], words: str) -> None:
    with pytest.raises(TemplateError, match=f"has an encoder and answers one text: .*{words}"):
        TEMPLATE.render(messages)


def test_a_later_question_is_asked_by_itself() -> None:
    talk = Talk(History.in_memory())
    answer = talk.ask("one")
    answer.parts += [Part(Token(1, "1", "plain", "none", 0, 0.0), "1")]
    talk.ask("two")
    assert talk.prompt(TEMPLATE, plan(TEMPLATE, "auto")).segments == (Segment("two"),)


def test_a_stopped_answer_is_not_made_part_of_the_text() -> None:
    talk = Talk(History.in_memory())
    answer = talk.ask("one")
    answer.parts += [Part(Token(1, "1", "plain", "none", 0, 0.0), "1")]
    answer.text = "1"
    with pytest.raises(TemplateError, match="cannot be gone on with"):
        talk.prompt(TEMPLATE, plan(TEMPLATE, "auto"))
