"""Thinking models: the switch, the markers, and telling thoughts from the answer token by token."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.conversation import Conversation
from localspec.chat.splitting import ChannelSplitter, MarkerSplitter, Part, Plain, Splitter
from localspec.chat.templates import ChatTemplate, Message
from localspec.chat.thinking import plan
from localspec.engine.events import Token

DATA = Path(__file__).parent / "templates"
QUESTION = [Message("user", "why?")]


def template(name: str) -> ChatTemplate:
    return ChatTemplate((DATA / f"{name}.jinja").read_text(encoding="utf-8"), "", "")


def token(text: str, number: int = 0, control: bool = False) -> Token:
    return Token(number, text, "plain", "none", number, 0.0, control)


def split(splitter: Splitter, pieces: list[str]) -> list[Part]:
    parts = [part for number, text in enumerate(pieces) for part in splitter.push(token(text, number))]
    return parts + splitter.finish()


def answer(parts: list[Part]) -> str:
    return "".join(part.text for part in parts)


def thoughts(parts: list[Part]) -> str:
    return "".join(part.thought for part in parts)


def tail(name: str, think: str) -> str:
    source = template(name)
    return source.render(QUESTION, plan(source, think).variables)[-1].text


@pytest.mark.parametrize("name", ["qwen3", "qwen3.5", "smollm3"])
def test_a_switch_turns_thinking_off_in_the_prompt(name: str) -> None:
    assert tail(name, "off").rstrip().endswith("</think>")
    assert not tail(name, "on").rstrip().endswith("</think>")
    assert tail(name, "auto") == tail(name, "on")
    for think in ("auto", "on", "off"):
        assert plan(template(name), think).note is None


@pytest.mark.parametrize("name", ["deepseek-r1-distill", "gpt-oss"])
def test_a_model_without_a_switch_says_so(name: str) -> None:
    assert "no switch" in (plan(template(name), "off").note or "")
    assert plan(template(name), "on").note is None
    assert tail(name, "off") == tail(name, "auto")


@pytest.mark.parametrize("name", ["qwen2.5", "llama-3.2", "gemma-3", "mistral", "smollm2"])
def test_a_model_that_does_not_think(name: str) -> None:
    found = plan(template(name), "on")
    assert "knows no thinking" in (found.note or "")
    assert not found.thinks
    assert found.keep_control == ()
    assert plan(template(name), "off").note is None
    assert isinstance(found.splitter(template(name).render(QUESTION)), Plain)
    text = "<think>the tag</think> is text here"
    assert answer(split(found.splitter(()), [text])) == text


def test_the_prompt_may_have_opened_the_thought() -> None:
    for name, opened in (("qwen3", False), ("qwen3.5", True), ("deepseek-r1-distill", True)):
        source = template(name)
        found = plan(source, "auto")
        parts = split(found.splitter(source.render(QUESTION)), ["Hm.\n", "</think>", "\n\n", "Yes."])
        assert (answer(parts), thoughts(parts)) == (("Yes.", "Hm.\n") if opened else ("Hm.\n</think>\n\nYes.", "")), (
            name
        )


def test_a_users_text_does_not_open_a_thought() -> None:
    """V2: the marker in a question is a word."""
    source = ChatTemplate("{{ messages[0].content }}{# </think> #}")
    prompt = source.render([Message("user", "what is <think>")])
    assert answer(split(plan(source, "auto").splitter(prompt), ["a tag"])) == "a tag"


def test_thoughts_leave_the_next_prompt_as_the_template_wants_it() -> None:
    talk = Conversation("S", [Message("user", "one")])
    talk.answered("first answer", thoughts="secret")
    talk.ask("two")
    for name in ("qwen3", "deepseek-r1-distill", "qwq", "gpt-oss", "qwen2.5"):
        text = "".join(segment.text for segment in talk.prompt(template(name)))
        assert "first answer" in text
        assert "secret" not in text, name
    keeps = ChatTemplate("{% for m in messages %}{{ m.reasoning_content or '' }}{{ m.content }}{% endfor %}")
    assert "secretfirst answer" in "".join(segment.text for segment in talk.prompt(keeps))


STREAM = "<think>\nLet me see: 1 < 2, </thin, </think\n</think>\n\n    indented </think> answer <think>\n"


@given(st.lists(st.integers(0, len(STREAM)), max_size=30), st.booleans())
def test_markers_split_over_tokens_are_found(cuts: list[int], blank: bool) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(edges)]
    pieces = ["\n " * blank, *pieces]
    parts = split(MarkerSplitter("<think>", "</think>", opened=False), pieces)
    assert thoughts(parts) == "Let me see: 1 < 2, </thin, </think\n"
    assert answer(parts) == "    indented </think> answer <think>\n"
    assert [part.token.id for part in parts] == list(range(len(pieces)))


@given(st.text(st.sampled_from(list("<think/> \nab")), max_size=40), st.integers(1, 3))
def test_an_answer_that_opens_no_thought_is_unchanged(text: str, size: int) -> None:
    """V4: nothing is trimmed, a reply that starts indented neither."""
    if text.lstrip().startswith("<think>"):
        return
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    parts = split(MarkerSplitter("<think>", "</think>", opened=False), pieces)
    assert (answer(parts), thoughts(parts)) == (text, "")
    assert [part.token.id for part in parts] == list(range(len(pieces)))


def test_text_that_turned_away_is_released_at_once() -> None:
    """S2, for markers."""
    splitter = MarkerSplitter("<think>", "</think>", opened=True)
    assert splitter.push(token("a </th")) == []
    assert [part.thought for part in splitter.push(token("e"))] == ["a </th", "e"]


def test_an_answer_cut_inside_its_thought_has_no_text() -> None:
    parts = split(MarkerSplitter("<think>", "</think>", opened=False), ["<think>", "still at it </thi"])
    assert (answer(parts), thoughts(parts)) == ("", "still at it </thi")


def test_channels_of_gpt_oss() -> None:
    splitter = ChannelSplitter()
    stream: list[tuple[str, bool]] = [
        ("<|channel|>", True),
        ("analysis", False),
        ("<|message|>", True),
        ("hm", False),
        ("<|end|>", True),
        ("<|start|>", True),
        ("assistant", False),
        ("<|channel|>", True),
        ("final", False),
        ("<|message|>", True),
        ("Yes <|channel|>", False),
    ]
    parts = [part for text, control in stream for part in splitter.push(token(text, control=control))]
    assert (answer(parts), thoughts(parts)) == ("Yes <|channel|>", "hm")
    assert len(parts) == len(stream)


def test_channels_lose_no_text_of_a_model_that_names_none() -> None:
    assert answer(split(ChannelSplitter(), ["just ", "text"])) == "just text"


def test_control_tokens_are_kept_only_for_the_markers() -> None:
    assert plan(template("qwen3"), "auto").keep_control == ("<think>", "</think>")
    assert "<|channel|>" in plan(template("gpt-oss"), "auto").keep_control
