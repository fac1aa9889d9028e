"""Chats as files: what is written reads back, and nothing in it is markup. S5, T2."""

import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from localspec.chat.errors import HistoryError
from localspec.chat.export import SUFFIXES, Format, export, to_markdown
from localspec.chat.export_html import COLORS, PAGE, to_html
from localspec.chat.export_json import from_json, to_json
from localspec.chat.history import History
from localspec.chat.visible import visible
from tests.chat.chats import TEXT, answer, chat_of, question

NASTY = 'a <script>alert("x")</script> &amp; [/] [@click=app.quit]x[/] \x1b]52;c;x\x07 `' + "\U0001f469‍\U0001f4bb"


@pytest.fixture
def history() -> Iterator[History]:
    opened = History.open()
    yield opened
    opened.close()


@pytest.fixture
def chat(history: History) -> int:
    """Two branches, thoughts, an answer that was cut off, every kind of token."""
    made = history.create(
        title="About *merge*", target="starter", system="Be <brief>.", settings={"top_k": 3}, created=1e6
    )
    first = history.add(made.id, question(NASTY), None, 1000.5)
    second = history.add(made.id, answer(thoughts="hm\n\nso"), first, 1001.5)
    history.add(made.id, question("and?"), second, 1002.5)
    other = history.add(made.id, question("or?"), second, 1003.5)
    broken = answer()
    broken.reason = broken.stats = None
    history.add(made.id, broken, other, 1004.5)
    return made.id


class TestJson:
    def test_it_comes_back_whole(self, history: History, chat: int) -> None:
        text = export(history, chat, "json")
        again = from_json(history, text)
        assert again != chat
        assert export(history, again, "json") == text
        assert [turn.parts for turn in history.turns(again)] == [turn.parts for turn in history.turns(chat)]
        assert history.branches(again)[0].shown

    def test_the_shown_branch_stays_the_shown_one(self, history: History, chat: int) -> None:
        other = history.branches(chat)[1].leaf
        history.show(other)
        again = from_json(history, export(history, chat, "json"))
        assert [turn.text for turn in history.turns(again)] == [turn.text for turn in history.turns(chat)]

    def test_it_is_the_words_of_the_json_lines(self, history: History, chat: int) -> None:
        found = to_json(history, chat)
        message = found["messages"][1]
        assert set(message["tokens"][1]) == {"id", "text", "kind", "drafter", "cycle", "t"}
        assert message["tokens"][0]["thought"] == "hm\n\nso"
        assert "".join(token["text"] for token in message["tokens"]) == message["text"] == TEXT
        assert message["cycles"][0]["proposed"] == 2
        assert message["stats"]["accepted"] == 3

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda found: found.update(format="other"), "not a chat"),
            (lambda found: found.update(version=99), "version is 99"),
            (lambda found: found.pop("messages"), "messages"),
            (lambda found: found.update(head=99), "99"),
            (lambda found: found.update(title=3), "should be a text"),
            (lambda found: found["messages"][1].update(parent=2), "not before it"),
            (lambda found: found["messages"][1].update(parent=True), "not before it"),
            (lambda found: found["messages"][1].update(role="system"), "role"),
            (lambda found: found["messages"][1].update(text="other"), "do not make its text"),
            (lambda found: found["messages"][1].update(reason="bored"), "bored"),
            (lambda found: found["messages"][1]["stats"].update(tokens="<b>"), "tokens"),
            (lambda found: found["messages"][1]["stats"].pop("tokens"), "tokens"),
            (lambda found: found["messages"][1]["started"].update(context=True), "context"),
            (lambda found: found["messages"][1]["cycles"][0].update(wild=1), "wild"),
            (lambda found: found["messages"][1]["tokens"][0].update(kind="magic"), "magic"),
            (lambda found: found["messages"][1]["tokens"][0].update(id="1"), "whole numbers"),
            (lambda found: found["messages"][1].update(tokens=[3]), ""),
        ],
    )
    def test_what_is_wrong_is_named_and_nothing_is_added(
        self, history: History, chat: int, change: Callable[[dict[str, Any]], object], words: str
    ) -> None:
        found = to_json(history, chat)
        change(found)
        with pytest.raises(HistoryError) as caught:
            from_json(history, json.dumps(found))
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(history.chats()) == 1

    @pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"format": "localspec chat"}', "[" * 100_000])
    def test_other_files_are_refused(self, history: History, text: str) -> None:
        with pytest.raises(HistoryError, match="cannot be taken in"):
            from_json(history, text)


class TestMarkdown:
    def test_the_shown_branch_reads(self, history: History, chat: int) -> None:
        text = to_markdown(history, chat)
        assert text.startswith("# About *merge*\n\n*19")
        assert "## System\n\nBe <brief>." in text
        assert f"## You\n\n{NASTY}\n\n## target\n\n> hm\n>\n> so\n\n{TEXT}" in text
        assert "tokens/s" in text
        assert "or?" in text
        assert "and?" not in text
        assert text.endswith("*not finished*\n")

    def test_an_empty_chat(self, history: History) -> None:
        assert to_markdown(history, history.create().id).startswith("# Untitled chat\n")


class Reader(HTMLParser):
    """Collects the texts, the elements, and refuses what a page must not have."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe", "object")
        assert not any(name.startswith("on") or name in ("src", "href", "style") for name, _ in attrs)
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


class TestHtml:
    def test_every_text_is_there_and_is_text(self, history: History, chat: int) -> None:
        page = to_html(history, chat)
        reader = Reader()
        reader.feed(page)
        reader.close()
        assert reader.open == []
        assert visible(NASTY) in reader.text
        assert visible(TEXT) in reader.text
        assert "Be <brief>." in reader.text
        assert "hm\n\nso" in reader.text
        assert "not finished" in reader.text
        assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", page) is None
        assert "http" not in page

    def test_tokens_have_their_look_and_tell_their_cycle(self, history: History, chat: int) -> None:
        reader = Reader()
        reader.feed(to_html(history, chat))
        spans = [(found.get("class"), found.get("title")) for tag, found in reader.elements if tag == "span"]
        assert {look for look, _ in spans} == {"lookup", "draft", "resampled", "bonus", "plain"}
        assert ("lookup", "accepted (lookup): 2 proposed, 2 kept") in spans
        assert ("draft", "accepted (draft model): 3 proposed, 1 kept; guessed ', b??'") in spans

    def test_a_plain_chat_has_no_legend(self, history: History) -> None:
        made = history.create()
        history.add(made.id, question("hello"), None)
        assert 'class="legend"' not in to_html(history, made.id)
        assert 'class="legend"' in to_html(history, chat_of(history, "x"))

    def test_light_and_dark_can_both_be_read(self) -> None:
        for place in (0, 1):
            for look, colors in COLORS.items():
                assert _contrast(colors[place], PAGE[place]) >= 4.5, (look, place)
        page = to_html_of_nothing()
        assert "prefers-color-scheme: dark" in page
        for look in COLORS:
            assert page.count(f"--{look}:") == 2


@pytest.mark.parametrize("form", sorted(set(SUFFIXES.values())))
def test_a_chat_that_is_not_there(history: History, form: Format) -> None:
    with pytest.raises(HistoryError, match="no chat 7"):
        export(history, 7, form)


def to_html_of_nothing() -> str:
    history = History.in_memory()
    return to_html(history, history.create().id)


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    """WCAG's."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
