"""Renamed words: found by their text however they are cut into tokens, learnt from one edit, given up when kept."""

import re

import pytest

from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.renames import LONGEST_WORD, Renames


class Cutter:
    """A vocabulary of short texts: a word with the blank or bracket before it, cut after each small letter before a
    capital."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def tokenize(self, text: str) -> list[int]:
        return [self._id(part) for part in re.findall(r"[ (]?[A-Z]?[a-z_]+|.|\n", text)]

    def piece(self, token: int) -> bytes:
        assert token >= 0, "the library ends the process on such a token"
        return self._texts[token].encode()

    def spell(self, tokens: list[int]) -> str:
        return "".join(self._texts[token] for token in tokens)

    def _id(self, text: str) -> int:
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text)


def learnt(before: str, old: str, new: str, behind: str) -> tuple[Cutter, Renames]:
    cutter = Cutter()
    renames = Renames(cutter.piece, cutter.tokenize)
    renames.learn(*(cutter.tokenize(text) for text in (before, old, new, behind)))
    return cutter, renames


def renamed(cutter: Cutter, renames: Renames, text: str) -> str:
    """`text` with the edits made, as a copy would."""
    tokens, at = cutter.tokenize(text), 0
    written: list[int] = []
    while at < len(tokens):
        edit = renames.at(tokens, at)
        written += edit.new if edit is not None else tokens[at : at + 1]
        at += len(edit.old) if edit is not None else 1
    return cutter.spell(written)


@pytest.mark.parametrize(
    ("before", "old", "new", "behind"),
    [
        ("def f", "(a", "(items", ", x):"),
        ("class ", "Text", "Paragraph", "Wrapper:"),
        ("class", " Text", " Paragraph", "Wrapper("),
        ("x = Old", "Wrapper", "Template", "\n"),
        ("", "Cmd", "CommandLoop", "()"),
    ],
)
def test_a_word_is_learnt_whole_and_found_behind_anything(before: str, old: str, new: str, behind: str) -> None:
    cutter, renames = learnt(before, old, new, behind)
    was = re.sub(r"\W+", " ", f"{before.split(' ')[-1]}{old}{behind}").split()[0]
    now = re.sub(r"\W+", " ", f"{before.split(' ')[-1]}{new}{behind}").split()[0]
    if before == "def f":
        was, now = "a", "items"
    text = "see {0}, ({0}) x{0} {0}s\n{0}"
    assert renamed(cutter, renames, text.format(was)) == f"see {now}, ({now}) x{was} {was}s\n{now}"


@pytest.mark.parametrize(
    ("before", "old", "new", "behind"),
    [
        ("def f(a", ")", ") -> None", ":\n"),
        ("f(", "a", "a, b", ")"),
        ("x = ", "old value", "new", "\n"),
        ("x", " = one", " = one", "\n"),
    ],
)
def test_what_is_no_change_of_one_word_is_not_learnt(before: str, old: str, new: str, behind: str) -> None:
    cutter, renames = learnt(before, old, new, behind)
    for text in (before + old + behind, f" {old}", "one a old value"):
        assert renamed(cutter, renames, text) == text


def test_a_word_of_very_many_tokens_is_no_name() -> None:
    cutter, renames = learnt("", "A" * (LONGEST_WORD + 1), "B", " ")
    assert renames.at(cutter.tokenize("A" * (LONGEST_WORD + 1)), 0) is None


def test_all_edits_of_a_word_share_what_came_of_them() -> None:
    cutter, renames = learnt("def f", "(a", "(items", ", x):")
    bare, behind_blank = renames.at(cutter.tokenize("a"), 0), renames.at(cutter.tokenize(" a"), 0)
    assert bare is not None
    assert behind_blank is not None
    assert bare.tried is behind_blank.tried
    behind_blank.tried.kept += 1
    assert not bare.tried.likely


HEAD = "keep any list in order without having to sort it again after each new one that is put in\n"

SOURCE = """def insort(a, x, low, high, key):
    insert item x in list a, and keep it sorted assuming a is sorted
    if low is none then low is zero
    return bisect(a, x)
"""


def test_a_copy_renames_where_the_word_is_cut_otherwise() -> None:
    """The first place has a bracket before the name, the next a blank: other tokens."""
    cutter = Cutter()
    lookup = Lookup(vocabulary=cutter)
    lookup.begin(cutter.tokenize(f"rename it\n{HEAD}{SOURCE}\n"))
    lookup.accept(cutter.tokenize(f"rename it\n{HEAD}def insort(items, x, low, high,"))
    drafted = cutter.spell(list(lookup.draft((), 24).tokens))
    assert drafted.startswith(" key):\n    insert item x in list items, and")
    lookup.accept(cutter.tokenize(" key):\n    insert item x in list items"))
    drafted = cutter.spell(list(lookup.draft((), 24).tokens))
    assert drafted.startswith(", and keep it sorted assuming items is sorted\n"), "on course again at once"


def test_a_word_that_is_kept_after_all_is_no_longer_renamed() -> None:
    cutter = Cutter()
    lookup = Lookup(vocabulary=cutter)
    lookup.begin(cutter.tokenize(f"rename it\n{HEAD}{SOURCE}\n"))
    lookup.accept(
        cutter.tokenize(f"rename it\n{HEAD}def insort(items, x, low, high, key):\n    insert item x in list a, and")
    )
    assert cutter.spell(list(lookup.draft((), 12).tokens)).startswith(" keep it sorted assuming a is")


PREDICTED = "one two three four five six seven eight nine ten eleven twelve cart aa bb cc dd ee ff gg"


def test_behind_the_end_of_another_text_there_is_no_word() -> None:
    """A predicted text is copied to its end, with a word renamed, and the answer writes on."""
    cutter = Cutter()
    lookup = Lookup(vocabulary=cutter)
    lookup.begin(cutter.tokenize("hello there"), [cutter.tokenize(PREDICTED)])
    for token in cutter.tokenize(PREDICTED.replace("cart", "basket") + " and more of it"):
        lookup.accept([token])
        assert all(drafted >= 0 for drafted in lookup.draft((), 8).tokens)


TOTALS = "".join(f"line {word} has a total\ntotal of {word} is here and there\n" for word in "abcdefgh")


def test_a_new_name_that_begins_like_the_old_one_is_given_up_too() -> None:
    """` total` became ` totals`, and where `total` is two tokens it stays: three times are enough to be told."""
    cutter = Cutter()
    lookup = Lookup(vocabulary=cutter)
    text = "some words to begin with so that the copy is known as one\n" + TOTALS
    lookup.begin(cutter.tokenize(text + "\nnow write it again\n"))
    answer = cutter.tokenize(text.replace(" total", " totals", 1))
    wrong = 0
    for at, token in enumerate(answer):
        drafted = lookup.draft((), 1).tokens
        wrong += at > 20 and bool(drafted) and drafted[0] != token
        lookup.accept([token])
    assert wrong <= 3


def test_elsewhere_than_in_the_edited_text_a_word_is_quoted_as_it_is() -> None:
    cutter = Cutter()
    lookup = Lookup(vocabulary=cutter)
    lookup.begin(cutter.tokenize("please put it in the cart and pay\n" + PREDICTED + "\nnow\n"))
    lookup.accept(cutter.tokenize(PREDICTED.replace("cart", "basket") + "\n so they said put it in"))
    assert cutter.spell(list(lookup.draft((), 3).tokens)) == " the cart and"


def test_a_long_name_is_learnt_whole_or_not_at_all() -> None:
    long = "A" * (LONGEST_WORD - 2)
    cutter, renames = learnt("x = ", "Old", "New", f"{long} and")
    assert renamed(cutter, renames, f"(Old{long})") == f"(New{long})"
    cutter, renames = learnt("x = ", "Old", "New", long)
    assert renamed(cutter, renames, f"(Old{long})") == f"(Old{long})"


@pytest.mark.parametrize("prefix", ["", " "])
def test_vocabularies_that_put_a_blank_before_any_text(prefix: str) -> None:
    cutter = Cutter()
    renames = Renames(cutter.piece, lambda text: cutter.tokenize(prefix)[:1] + cutter.tokenize(text))
    renames.learn(*(cutter.tokenize(text) for text in ("f", "(cart", "(basket", ")")))
    assert renamed(cutter, renames, "(cart) cart") == "(basket) basket"


def test_what_cannot_be_spelled_is_left_alone() -> None:
    cutter = Cutter()
    renames = Renames(cutter.piece, lambda text: [])
    renames.learn(*(cutter.tokenize(text) for text in ("f", "(cart", "(basket", ")")))
    assert renamed(cutter, renames, "(cart)") == "(cart)"


def test_another_new_name_is_not_believed_where_the_old_one_mostly_stayed() -> None:
    cutter, renames = learnt("f", "(cart", "(basket", ")")
    first = renames.at(cutter.tokenize("cart"), 0)
    assert first is not None
    first.tried.kept = 5
    renames.learn(*(cutter.tokenize(text) for text in ("f", "(cart", "(trolley", ")")))
    second = renames.at(cutter.tokenize("cart"), 0)
    assert second is not None
    assert cutter.spell(list(second.new)) == "trolley"
    assert not second.tried.likely
