"""A server whose model has an encoder: one text a request, the rest refused in words."""

from dataclasses import replace
from typing import Any

import pytest

from tests.fake_engine import INFO, Script, plain

ENCODER = replace(INFO, has_encoder=True, fim_texts={"pre": "<P>", "suf": "<S>", "mid": "<M>"})
QUESTION = {"role": "user", "content": "translate: house"}


@pytest.fixture
def server(serving: Any) -> Any:
    return serving([Script(plain("Haus"))], info=ENCODER)


def test_one_message_is_the_text(server: Any) -> None:
    status, answer = server.ask("/v1/chat/completions", {"messages": [QUESTION]})
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Haus")
    assert [segment.text for segment in server.engine.requests[-1].prompt] == ["translate: house"]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "system", "content": "Be brief."}, QUESTION], "a system text has no place in it"),
        ([QUESTION, {"role": "assistant", "content": "Haus"}, QUESTION], "several turns"),
        ([QUESTION, {"role": "assistant", "content": "Ha"}], "cannot be gone on with"),
    ],
)
def test_a_conversation_is_refused(server: Any, messages: list[dict[str, str]], words: str) -> None:
    status, answer = server.ask("/v1/chat/completions", {"messages": messages})
    assert status == 400
    assert words in answer["error"]["message"]
    assert server.engine.requests == []


def test_no_gap_is_filled(server: Any) -> None:
    status, answer = server.ask("/infill", {"input_prefix": "a", "input_suffix": "b"})
    assert status == 501
    assert "has an encoder and answers one text: it cannot fill a gap" in answer["error"]["message"]
