"""Prompt lookup against a search by hand, on texts that repeat, overlap and branch (P4)."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.engine.drafters.base import Draft, Drafter
from localspec.engine.drafters.lookup import Lookup, Match, SuffixIndex

EMPTY = Draft(())


def begun(tokens: list[int], min_match: int = 2) -> Lookup:
    lookup = Lookup(min_match)
    lookup.begin(tokens)
    return lookup


def search(tokens: list[int]) -> Match | None:
    """The longest end of `tokens` that stands somewhere before, at its latest place."""
    for length in range(len(tokens) - 1, 0, -1):
        end = tokens[-length:]
        for position in range(len(tokens) - 1, length - 1, -1):
            if tokens[position - length : position] == end:
                return Match(position, length)
    return None


def test_is_a_drafter() -> None:
    drafter: Drafter = Lookup()
    assert drafter.name == "lookup"


@given(st.lists(st.integers(0, 3), max_size=30))
def test_longest_match_at_its_latest_place(tokens: list[int]) -> None:
    """At every length of the growing text. P4."""
    index = SuffixIndex()
    for count, token in enumerate(tokens, 1):
        index.extend(token)
        assert next(index.matches(), None) == search(tokens[:count])


@given(st.lists(st.integers(0, 2), max_size=40))
def test_every_match_is_one(tokens: list[int]) -> None:
    lengths = []
    for match in SuffixIndex(tokens).matches():
        assert match.position < len(tokens)
        assert tokens[match.position - match.length : match.position] == tokens[-match.length :]
        lengths.append(match.length)
    assert lengths == sorted(set(lengths), reverse=True)


def test_every_match_is_one_in_an_endless_repetition() -> None:
    """Places are no longer kept up to date for every length, but stay true."""
    tokens = [7] * 500
    matches = list(SuffixIndex(tokens).matches())
    assert matches[0] == Match(499, 499)
    assert all(match.length <= match.position < 500 for match in matches)


def test_proposes_what_followed_and_says_how_much_matched() -> None:
    assert begun([1, 2, 3, 4, 5, 9, 1, 2, 3]).draft([], 3) == Draft([4, 5, 9], match_length=3)


def test_of_two_continuations_the_latest_counts() -> None:
    """P4: the one n-gram 1 2 went on with 3, then with 4."""
    assert begun([1, 2, 3, 0, 1, 2, 4, 0, 1, 2]).draft([], 2) == Draft([4, 0], match_length=3)
    assert begun([8, 1, 2, 3, 5, 1, 2, 4, 6, 1, 2]).draft([], 2) == Draft([4, 6], match_length=2)


def test_the_latest_counts_also_when_longer_matches_came_between() -> None:
    """P4: 1 2 last stood inside the repeated 9 1 2, whose own entry is a longer one."""
    assert begun([1, 2, 3, 9, 1, 2, 4, 9, 1, 2, 5, 1, 2]).draft([], 1) == Draft([5], match_length=2)


def test_a_longer_match_beats_a_later_one() -> None:
    """P4: 6 1 2 went on with 3; the later 1 2 with 4."""
    assert begun([6, 1, 2, 3, 7, 1, 2, 4, 6, 1, 2]).draft([], 1) == Draft([3], match_length=3)


@pytest.mark.parametrize("tokens", [[], [1], [1, 1], [1, 2], [1, 2, 3, 1]])
def test_nothing_matched_nothing_proposed(tokens: list[int]) -> None:
    """P4: also a prompt shorter than the shortest match."""
    assert begun(tokens).draft(tokens, 8) == EMPTY


def test_no_room_nothing_proposed() -> None:
    assert begun([1, 2, 1, 2]).draft([], 0) == EMPTY


def test_shortest_match_is_a_setting() -> None:
    tokens = [1, 2, 3, 4, 1, 2, 3]
    assert begun(tokens, min_match=3).draft([], 1) == Draft([4], match_length=3)
    assert begun(tokens, min_match=4).draft([], 1) == EMPTY
    assert begun([1, 5, 2, 1], min_match=1).draft([], 2) == Draft([5, 2], match_length=1)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), st.integers(1, 20))
def test_a_repetition_is_continued(period: list[int], limit: int) -> None:
    """A match overlapping the end goes on into the draft itself."""
    tokens = period * 4
    expected = [period[i % len(period)] for i in range(limit)]
    assert list(begun(tokens).draft(tokens, limit).tokens) == expected


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=30), st.integers(0, 12))
def test_a_new_conversation_leaves_nothing_of_the_old(old: list[int], new: list[int], limit: int) -> None:
    """P4: after a new chat, an edit, a cancelled answer or a continued chat the drafts are a fresh drafter's."""
    lookup = begun(old)
    lookup.accept([1, 2])
    for tokens in (new, new + old, new + old[:3], []):
        lookup.begin(tokens)
        assert lookup.draft(tokens, limit) == begun(tokens).draft(tokens, limit)


def test_emitted_tokens_are_found_from_then_on() -> None:
    lookup = begun([1, 2, 3])
    lookup.accept([5, 6, 7])
    lookup.accept([5, 6])
    assert lookup.draft([], 2) == Draft([7, 5], match_length=2)


def test_closed_it_holds_nothing() -> None:
    lookup = begun([1, 2, 1, 2])
    lookup.close()
    assert lookup.draft([], 4) == EMPTY


def repetitive(count: int) -> list[int]:
    """Tokens of a skewed vocabulary with copied stretches, as in an edited file."""
    rng = random.Random(5)
    tokens: list[int] = []
    while len(tokens) < count:
        if tokens and rng.random() < 0.05:
            start = rng.randrange(len(tokens))
            tokens += tokens[start : start + rng.randrange(5, 60)]
        else:
            tokens.append(int(rng.paretovariate(0.6)) % 5000)
    return tokens[:count]


@pytest.mark.parametrize("tokens", [repetitive(16_384), [7] * 16_384, [1, 2] * 8_192], ids=["text", "one", "two"])
def test_memory_grows_with_the_text(tokens: list[int]) -> None:
    """P7: bytes a token stay within a bound, whatever the text."""
    tracemalloc.start()
    try:
        index = SuffixIndex(tokens)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(index.tokens) == len(tokens)
    assert held < 800 * len(tokens)


SOURCE = list(range(100, 160))
"""A text in which no token recurs: only the course can say where a copy goes on."""


def copying(*written: int) -> Lookup:
    """A drafter that has seen the source, something else, and then a copy of its first 20 tokens and `written`."""
    lookup = Lookup()
    lookup.begin([*SOURCE, 1, 2, 3])
    lookup.accept(SOURCE[:20])
    lookup.accept(written)
    return lookup


@pytest.mark.parametrize(
    ("written", "ground", "follows"),
    [
        ((), "match", 20),
        ((7,), "replaced", 21),
        ((7, 120), "resumed", 21),
        ((7, 8, 9, 120), "resumed", 21),
        ((123,), "resumed", 24),
        ((7, 121), "resumed", 22),
    ],
    ids=["on course", "replaced", "put in", "a longer insertion", "left out", "replaced and agreed"],
)
def test_a_copy_goes_on_behind_an_edit(written: tuple[int, ...], ground: str, follows: int) -> None:
    """After a substitution, an insertion or a deletion the copy is proposed again at once."""
    draft = copying(*written).draft([], 6)
    assert draft.ground == ground
    assert list(draft.tokens) == SOURCE[follows : follows + 6]


def test_an_edit_that_does_not_come_back_is_given_up() -> None:
    assert copying(*range(1000, 1002)).draft([], 6).tokens == ()
    assert copying(*range(1000, 1000 + 13), 120).draft([], 6).ground == "match"


def test_a_short_copy_sets_no_course() -> None:
    lookup = Lookup()
    lookup.begin([*SOURCE, 1, 2, 3])
    lookup.accept(SOURCE[:8])
    lookup.accept([7])
    assert lookup.draft([], 6).tokens == ()


def test_a_new_conversation_forgets_the_course() -> None:
    lookup = copying(7)
    lookup.begin([50, 51, 52])
    assert lookup.draft([], 6).tokens == ()


def test_nothing_is_proposed_past_an_end_token() -> None:
    """C1: an end token in the conversation is the last a draft can be of use for."""
    lookup = Lookup(ends=frozenset({99}))
    lookup.begin([1, 2, 3, 99, 4, 5, 1, 2])
    assert lookup.draft([], 8).tokens == [3, 99]
    assert lookup.draft([], 1).tokens == [3]
