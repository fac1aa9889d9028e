"""Blocks of a prompt that an answer gives back: found by their fences, copied from their beginning, closed as answers
are."""

from collections.abc import Sequence

import pytest

from localspec.engine.blocks import Block, blocks_of
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.requests import SourceText


class Letters:
    """A character a token, but for these longer ones; the longest comes first."""

    LONGER = ("```", "``", "`\n\n", "````")

    def __init__(self, longer: Sequence[str] = ()) -> None:
        self.pieces = sorted({*map(chr, range(128)), *self.LONGER, *longer}, key=lambda text: (-len(text), text))

    def piece(self, token: int) -> bytes:
        return self.pieces[token].encode()

    def tokenize(self, text: str) -> list[int]:
        tokens = []
        while text:
            tokens.append(next(number for number, piece in enumerate(self.pieces) if text.startswith(piece)))
            text = text[len(self.pieces[tokens[-1]]) :]
        return tokens

    def of(self, *pieces: str) -> list[int]:
        return [self.pieces.index(piece) for piece in pieces]


MODEL = Letters()
TEXT = "a = 1\nb = 2\n"
PROMPT = [
    *MODEL.tokenize("Change this:\n\n```python\n" + TEXT), *MODEL.of("``", "`\n\n"), *MODEL.tokenize("Say b = 3.\n"),
]  # fmt: skip
OPENS = len(MODEL.tokenize("Change this:\n\n"))
CLOSES = OPENS + len(MODEL.tokenize("```python\n" + TEXT))


def found(text: str, prompt: Sequence[int] = PROMPT, model: Letters = MODEL) -> list[Block]:
    return blocks_of(model, prompt, [SourceText("a.py", text, rewritten=True)])


@pytest.mark.parametrize("text", [TEXT, TEXT.rstrip("\n")])
def test_a_block_is_found_with_its_fences(text: str) -> None:
    assert found(text) == [Block(OPENS, CLOSES, tuple(MODEL.of("```")), True)]


def test_its_closing_fence_is_as_long_as_its_opening_one() -> None:
    prompt = MODEL.tokenize("````\n" + TEXT + "````\n")
    assert found(TEXT, prompt)[0].closing == tuple(MODEL.of("````"))
    assert found(TEXT, MODEL.tokenize("````\n" + TEXT + "```\n")) == []


def test_a_text_in_no_block_is_none() -> None:
    assert found(TEXT, MODEL.tokenize("This: " + TEXT + "is it.")) == []
    assert found(TEXT, MODEL.tokenize("`a`\n" + TEXT + "`\n")) == []
    assert found("not there", PROMPT) == []
    assert found(" \n", PROMPT) == []
    assert blocks_of(MODEL, PROMPT, []) == []


def test_a_fence_that_begins_inside_a_token_is_left_out() -> None:
    model = Letters(longer=("2\n``",))
    assert found(TEXT, model.tokenize("```\n" + TEXT + "```\n"), model) == []


def looked_up(*, rewritten: bool) -> Lookup:
    lookup = Lookup()
    (block,) = found(TEXT)
    lookup.begin(PROMPT, (), [block._replace(rewritten=rewritten)])
    return lookup


def test_a_copy_ends_with_its_block_and_closes_it_as_an_answer_is() -> None:
    """And not with the fence's cut in the prompt and the words behind it."""
    lookup = looked_up(rewritten=False)
    lookup.accept(MODEL.tokenize("b ="))
    draft = lookup.draft((), 30)
    assert [MODEL.pieces[token] for token in draft.tokens] == [" ", "2", "\n", "```"]
    assert len(draft.places) == len(draft.positions) == 4
    assert draft.positions[-1] == -1
    lookup.accept(MODEL.tokenize(" 2\n"))
    assert lookup.draft((), 30).tokens == MODEL.of("```")


def test_an_answer_that_is_to_be_the_block_is_a_copy_from_its_first_token_on() -> None:
    lookup = looked_up(rewritten=True)
    lookup.accept(MODEL.of("```"))
    draft = lookup.draft((), 60)
    assert b"".join(map(MODEL.piece, draft.tokens)).decode() == "python\n" + TEXT + "```"
    assert draft.places[0].copied > 10
    assert looked_up(rewritten=False).draft((), 60).tokens != draft.tokens


def test_another_answer_is_no_copy() -> None:
    lookup = looked_up(rewritten=True)
    lookup.accept(MODEL.tokenize("xyz"))
    assert all(place.copied <= 3 for place in lookup.draft((), 5).places[:1])


def test_blocks_belong_to_their_prompt() -> None:
    lookup = looked_up(rewritten=True)
    lookup.begin([*PROMPT, *MODEL.tokenize("c")])
    lookup.accept(MODEL.tokenize("b = 2"))
    assert lookup.draft((), 30).tokens[:3] == MODEL.of("\n", "``", "`\n\n")
