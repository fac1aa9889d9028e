"""Prompt lookup against a search by hand, on texts that repeat, overlap and branch (P4)."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.engine.drafters.automaton import Match, SuffixIndex
from localspec.engine.drafters.base import Draft, Drafter, Place
from localspec.engine.drafters.course import MEMORY_OF_COURSE, ON_COURSE
from localspec.engine.drafters.lookup import MANY, Lookup

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
    lost = copying(*range(1000, 1000 + MEMORY_OF_COURSE + 1), 120).draft([], 6)
    assert (lost.ground, lost.match_length) == ("match", 1)


def test_a_short_copy_sets_no_course() -> None:
    lookup = Lookup()
    lookup.begin([*SOURCE, 1, 2, 3])
    lookup.accept(SOURCE[:8])
    lookup.accept([7])
    assert lookup.draft([], 6).tokens == ()


def test_a_copy_counts_as_going_on_after_a_few_tokens() -> None:
    """Where the end of the text stood elsewhere too, the course knows better than the longest match."""
    lookup = Lookup()
    lookup.begin([*SOURCE, 1, 2, 3, 121, 122, 123, 900, 901])
    lookup.accept(SOURCE[:20])
    lookup.accept([7, 121, 122, 123])
    draft = lookup.draft([], 4)
    assert (draft.tokens, draft.ground, draft.places[0].copied) == ([124, 125, 126, 127], "resumed", 3)


RENAMED = [*range(100, 115), 50, *range(115, 130), 50, *range(130, 145), 50, 51, *range(145, 160)]
"""A text with a name (50) in three places, in the last as part of a longer one."""


def editing(*written: int) -> Lookup:
    lookup = Lookup()
    lookup.begin([*RENAMED, 1, 2, 3])
    lookup.accept(written)
    return lookup


def test_an_edit_made_once_is_made_again() -> None:
    """50 became 77 88: the next place is drafted so, as part of the copy."""
    lookup = editing(*range(100, 115), 77, 88, *range(115, 120))
    draft = lookup.draft([], 16)
    assert draft.tokens == [*range(120, 130), 77, 88, *range(130, 134)]
    assert [place.ground for place in draft.places[9:13]] == ["match", "renamed", "renamed", "resumed"]
    assert draft.places[10] == Place(0, 1, 1, "renamed")
    assert draft.positions[10] == -1


def test_an_edit_that_was_made_again_counts_twice_and_the_copy_goes_on_at_once() -> None:
    lookup = editing(*range(100, 115), 77, 88, *range(115, 130), 77, 88)
    draft = lookup.draft([], 20)
    assert draft.tokens[:15] == list(range(130, 145))
    assert draft.tokens[15:17] == [77, 88]
    assert draft.places[15] == Place(0, 2, 2, "renamed")


def test_an_edit_that_is_not_made_again_is_no_longer_proposed() -> None:
    lookup = editing(*range(100, 115), 77, *range(115, 130), 50, *range(130, 140))
    draft = lookup.draft([], 6)
    assert draft.tokens == [*range(140, 145), 50]


def test_an_edit_inside_what_it_makes_is_made_once() -> None:
    """50 became 50 60: a copy from the edited text is left alone."""
    lookup = editing(*range(100, 115), 50, 60, *range(115, 130), 50, 60, *range(130, 145), 2, 3, *range(100, 115))
    assert lookup.draft([], 4).tokens == [50, 60, 115, 116]


def test_what_speaks_for_a_token_is_counted() -> None:
    """1 2 went on with 3 twice and with 4 once; a 3 after it always with 5."""
    lookup = begun([1, 2, 3, 5, 0, 1, 2, 4, 9, 1, 2, 3, 5, 8, 1, 2])
    draft = lookup.draft([], 3)
    assert draft.tokens == [3, 5, 8]
    assert draft.places == [Place(2, 3, 2), Place(3, 2, 2), Place(4, 2, 1)]
    assert draft.positions == [11, 12, 13]


def test_of_what_followed_a_short_match_the_most_frequent_is_proposed() -> None:
    tokens = [1, 2, 3, 0, 1, 2, 3, 9, 1, 2, 4, 8, 1, 2]
    assert begun(tokens).draft([], 1).tokens == [3]


@pytest.mark.parametrize(("different", "proposed"), [(MANY // 2, 50), (MANY + 1, 9999)])
def test_of_very_many_continuations_none_is_counted(different: int, proposed: int) -> None:
    """In a long text a blank is followed by thousands of words."""
    others = [token for other in range(different) for token in (7, 100 + other)]
    lookup = begun([7, 50, 7, 50, 7, 50, *others, 7, 9999, 7], 1)
    assert lookup.draft([], 1).tokens == [proposed]


def test_texts_besides_are_looked_up_and_never_run_into_the_conversation() -> None:
    """A prediction is indexed before the conversation; behind its end nothing is proposed."""
    lookup = Lookup()
    lookup.begin([1, 2, 3], [[7, 8, 9], [3, 4, 5]])
    assert lookup.offset == 8
    draft = lookup.draft([], 8)
    assert (draft.tokens, draft.positions) == ([4, 5], [5, 6])
    lookup.begin([1, 2, 3])
    assert lookup.draft([], 8) == EMPTY


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


TOKENS = st.integers(0, 3)
KINDS = st.sampled_from(["copy", "insert", "delete", "replace", "jump", "rename"])
EDITS = st.lists(st.tuples(KINDS, st.integers(1, 9), st.lists(TOKENS, max_size=4)), max_size=30)


@given(st.lists(TOKENS, min_size=1, max_size=60), st.lists(st.lists(TOKENS, max_size=20), max_size=2), EDITS,
       st.integers(-1, 32))  # fmt: skip
def test_whatever_is_edited_a_draft_is_whole(
    source: list[int], texts: list[list[int]], edits: list[tuple[str, int, list[int]]], limit: int
) -> None:
    """Never longer than the limit, every token with its place and its position, each position holding that token."""
    lookup = Lookup(1)
    lookup.begin(source, texts)
    indexed = [token for text in texts for token in (*text, -1)] + source
    at = 0
    for kind, count, new in edits:
        old = [source[(at + i) % len(source)] for i in range(count)]
        written = {"copy": old, "insert": new, "replace": new, "rename": [token ^ 1 for token in old]}.get(kind, [])
        at = (at * 7 + count if kind == "jump" else at + (0 if kind == "insert" else count)) % len(source)
        for token in written:
            lookup.accept([token])
            indexed.append(token)
            draft = lookup.draft([], limit)
            assert len(draft.tokens) == len(draft.places) == len(draft.positions) <= max(0, limit)
            known = [*indexed, *draft.tokens]
            assert all(
                position == -1 or known[position] == token
                for token, position in zip(draft.tokens, draft.positions, strict=True)
            )
            assert all(token >= 0 for token in draft.tokens)
            assert all(place.seen >= place.same >= 0 or place.ground == "match" for place in draft.places)


def test_what_is_copied_from_the_answer_itself_says_so() -> None:
    lookup = begun([1, 2, 3, 4])
    lookup.accept([7, 8, 9, 1, 2, 3])
    assert not lookup.draft((), 1).places[0].own
    lookup.accept([7, 8])
    assert lookup.draft((), 1).places[0].own
    lookup.begin([1, 2, 3, 4, 7, 8, 9, 1, 2, 3, 7, 8])
    assert lookup.draft((), 1).places[0].own, "the model's turns of phrase are its own in the next answer too"
    stranger = begun([1, 2, 3, 4, 7, 8, 9, 1, 2, 3, 7, 8])
    assert not stranger.draft((), 1).places[0].own, "nobody saw who wrote that"


def test_a_long_copy_of_an_earlier_answer_is_of_a_text_like_any_other() -> None:
    lookup = begun([1, 2, 3, 4])
    answer = list(range(10, 60))
    lookup.accept(answer)
    lookup.begin([1, 2, 3, 4, *answer, 5])
    lookup.accept(answer[:3])
    places = lookup.draft((), 30).places
    assert [place.own for place in places] == [place.copied < ON_COURSE for place in places]
    assert places[0].own
    assert not places[-1].own
