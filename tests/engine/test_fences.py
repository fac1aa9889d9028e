"""Code blocks by their fences: in prompts of several messages, and in the answer as it grows."""

import pytest

from localspec.engine.drafters.fences import EARLY, Fences
from localspec.engine.drafters.lookup import Lookup

END, PROSE, FENCE, LINE, OPENED, CODE, NEWLINE, LONG, TILDES = range(9)
TEXTS = [b"", b" word", b"```", b"python\n", b"```\n", b"x = 1\n", b"\n", b"````", b"~~~\n"]


def begun(*prompt: int) -> Fences:
    fences = Fences(lambda token: TEXTS[token])
    fences.begin(prompt)
    return fences


@pytest.mark.parametrize(
    ("prompt", "start", "within"),
    [
        ([PROSE, END], None, False),
        ([PROSE, NEWLINE, FENCE, LINE, CODE, OPENED, PROSE, END], 4, False),
        ([OPENED, CODE, OPENED, PROSE, NEWLINE, FENCE, LINE, CODE, FENCE, END], 7, False),
        ([OPENED, CODE, END, PROSE], None, False),
        ([OPENED, CODE, FENCE, END, OPENED], 1, True),
        ([FENCE, PROSE], None, False),
        ([LONG, LINE, CODE, OPENED, CODE, OPENED, LONG, NEWLINE, END], 2, False),
        ([LONG, NEWLINE, CODE, OPENED, CODE], None, True),
        ([TILDES, CODE, OPENED, TILDES, END], 1, False),
        ([PROSE, FENCE, PROSE, NEWLINE, OPENED, CODE, FENCE, END], 5, False),
        ([OPENED, CODE, OPENED, OPENED, OPENED, END], 1, False),
    ],
)  # fmt: skip
def test_the_latest_block_of_a_prompt(prompt: list[int], start: int | None, within: bool) -> None:
    """A longer fence holds shorter ones, other marks, and such within a line, are text; a block has an end."""
    fences = begun(*prompt)
    assert (fences.start, fences.within) == (start, within)


def test_an_answers_first_block_is_noticed_where_its_text_begins() -> None:
    fences = begun(OPENED, CODE, FENCE, END)
    noticed = [fences.wrote(token) for token in (PROSE, NEWLINE, FENCE, LINE, CODE, FENCE, NEWLINE)]
    assert noticed == [False, False, False, True, False, False, False]
    assert not fences.within
    assert [fences.wrote(token) for token in (OPENED, CODE)] == [False, False], "the second is another one"
    assert fences.within


def test_a_block_behind_much_prose_is_not_what_was_asked_for() -> None:
    fences = begun(OPENED, CODE, FENCE, END)
    assert not any(fences.wrote(token) for token in [*[PROSE] * EARLY, NEWLINE, OPENED, CODE])
    assert fences.within


def test_without_texts_there_are_no_fences() -> None:
    fences = Fences(None)
    fences.begin([FENCE, LINE])
    assert not fences.wrote(OPENED)
    assert (fences.start, fences.within) == (None, False)


class Vocabulary:
    def piece(self, token: int) -> bytes:
        return TEXTS[token] if token < len(TEXTS) else b" %d" % token

    def tokenize(self, text: str) -> list[int]:
        return []


SOURCE = list(range(100, 140))


def test_an_answer_that_opens_a_block_gives_that_of_the_prompt_back() -> None:
    """From its first line on, as a copy that is under way; where it does not, nothing is held against the text."""
    lookup = Lookup(vocabulary=Vocabulary())
    lookup.begin([50, 51, NEWLINE, OPENED, *SOURCE, NEWLINE, FENCE, NEWLINE, 52, END])
    lookup.accept([FENCE])
    assert lookup.draft((), 8).tokens[:1] != SOURCE[:1]
    lookup.accept([LINE])
    draft = lookup.draft((), 8)
    assert (list(draft.tokens), draft.ground) == (SOURCE[:8], "resumed")
    lookup.accept([60, 61, 62])
    assert lookup.draft((), 8).tokens == ()
