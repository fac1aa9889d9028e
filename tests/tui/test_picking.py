"""Picking code out of the chat, and finding the file it came from."""

from dataclasses import replace

from localspec.chat.attach import Attached, with_files
from localspec.chat.splitting import Part
from localspec.chat.turns import Turn
from localspec.engine.events import Source, Token
from localspec.tui.picking import Lines, Picked, block_at, blocks, place_of, selected

CODE = "def add(self):\n    pass\n"
ANSWER = f"Here:\n\n```py\n{CODE}```\n\nand\n\n~~~\nplain\n~~~\n"


def answer(text: str, *sources: tuple[str, Source]) -> Turn:
    """A turn with a token a character; `sources` are for the characters of a stretch of it."""
    turn = Turn("assistant", text)
    turn.parts = [Part(Token(1, char, "plain", "none", 0, 0.0), char) for char in text]
    for stretch, source in sources:
        at = text.index(stretch)
        for index in range(at, at + len(stretch)):
            part = turn.parts[index]
            turn.parts[index] = replace(part, token=replace(part.token, source=source))
    return turn


def test_the_blocks_of_a_turn() -> None:
    turn = Turn("assistant", ANSWER)
    first, second = blocks(turn)
    assert (first.text, first.language) == (CODE, "py")
    assert (second.text, second.language) == ("plain\n", "")
    assert [turn.text[one.start : one.end] for one in (first, second)] == [CODE, "plain\n"]


def test_a_block_is_found_by_a_token_in_it() -> None:
    turn = answer(ANSWER)
    inside = block_at(turn, ANSWER.index("pass"))
    assert inside is not None
    assert inside.text == CODE
    assert block_at(turn, ANSWER.index("and")) is None


def test_what_is_quoted_can_hold_anything() -> None:
    assert Picked(CODE, language="py").quoted() == f"```py\n{CODE}```\n"
    assert Picked("a word").quoted() == "a word"
    assert Picked("two\n```\nlines").quoted() == "````\ntwo\n```\nlines\n````\n"


def test_the_place_follows_the_tokens() -> None:
    turn = answer(
        ANSWER,
        ("def add", Source("/x/shelf.py", 12)),
        ("    pass", Source("/x/shelf.py", 13)),
        ("self", Source("/x/other.py", 1)),
        ("Here", Source("/x/shelf.py", 99)),
    )
    assert place_of(blocks(turn)[0], [turn]) == Lines("/x/shelf.py", 12, 13)


def test_text_without_sources_is_sought_in_the_attached_files() -> None:
    file = Attached("/x/shelf.py", "import os\n\n" + CODE + "more\n", ".py")
    question = Turn("user", with_files("look", [file]))
    turn = answer(ANSWER, ("def add", Source("prompt", 3)))
    assert place_of(blocks(turn)[0], [question, turn]) == Lines("/x/shelf.py", 3, 4)
    assert place_of(Picked("nowhere"), [question, turn]) is None
    assert place_of(Picked("\n"), [question, turn]) is None


def test_a_selection_is_found_in_its_turn() -> None:
    turns = [Turn("user", "some pass"), answer(ANSWER, ("pass", Source("/a.py", 7)))]
    picked = selected(turns, "    pass")
    assert place_of(picked, turns) == Lines("/a.py", 7, 7)
    assert selected(turns, "not there") == Picked("not there")
