"""How likely copied tokens stand: priors in order, the text at hand followed, neither fooled by one cycle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.engine.drafters.base import Place
from localspec.engine.drafters.joints import JOINTS, Joint
from localspec.engine.lookup_acceptance import WITNESSED, LookupAcceptance, prior


def test_the_longer_the_copy_the_surer() -> None:
    rates = [prior(Place(copied)) for copied in range(1, 120)]
    assert rates == sorted(rates)
    assert rates[0] < 0.4
    assert rates[-1] > 0.98


@pytest.mark.parametrize("copied", [1, 2, 3, 5, 12])
def test_witnesses_that_agree_help_a_short_copy_and_a_fork_harms_any(copied: int) -> None:
    fork, alone, agreeing = prior(Place(copied, 3, 2)), prior(Place(copied)), prior(Place(copied, 3, 3))
    assert fork < alone <= agreeing
    assert (alone < agreeing) == (copied <= WITNESSED)


def test_an_edit_is_believed_by_how_often_it_was_made() -> None:
    assert prior(Place(0, 1, 1, "renamed")) < prior(Place(0, 4, 4, "renamed"))
    assert prior(Place(0, 4, 1, "renamed")) < 0.5


def test_behind_an_edit_trust_comes_back_quickly() -> None:
    rates = [prior(Place(copied, ground="resumed")) for copied in range(30)]
    assert rates == sorted(rates)
    assert rates[0] < 0.5 < 0.9 < rates[8]


@pytest.mark.parametrize("true", [0.1, 0.5, 0.9])
def test_the_text_at_hand_is_followed(true: float) -> None:
    """Within forty verdicts, and most of the way whatever the prior says."""
    rng = np.random.default_rng(3)
    seen, place = LookupAcceptance(), Place(3)
    rates = []
    for _ in range(400):
        seen.learn(place, bool(rng.random() < true))
        rates.append(seen.rate(place))
    assert np.mean(rates[40:]) == pytest.approx(true, abs=0.1)


def test_one_verdict_does_not_fool() -> None:
    seen, place = LookupAcceptance(), Place(3)
    before = seen.rate(place)
    seen.learn(place, False)
    assert before - 0.08 < seen.rate(place) < before


def test_the_luck_of_short_copies_says_nothing_of_long_ones() -> None:
    seen = LookupAcceptance()
    before = seen.rate(Place(30))
    for _ in range(30):
        seen.learn(Place(2), False)
    assert seen.rate(Place(30)) == before
    assert seen.rate(Place(2)) < 0.25


def test_a_new_answer_begins_anew() -> None:
    """What a summary copies says nothing of the answer to the question behind it."""
    seen, place = LookupAcceptance(), Place(3)
    start = seen.rate(place)
    for _ in range(30):
        seen.learn(place, False)
    assert seen.rate(place) < start - 0.2
    seen.begin()
    assert seen.rate(place) == start


def test_of_fields_a_part_is_remembered() -> None:
    seen, place = LookupAcceptance(), Place(1, ground="piece")
    start = seen.rate(place)
    for _ in range(30):
        seen.learn(place, False)
    low = seen.rate(place)
    seen.begin(bounded=True)
    assert low < seen.rate(place) < start


def test_under_a_grammar_copies_are_trusted_less_until_they_stand() -> None:
    free, bounded = LookupAcceptance(), LookupAcceptance()
    bounded.begin(bounded=True)
    for place in (Place(3), Place(20)):
        assert bounded.rate(place) < free.rate(place)
    for _ in range(40):
        bounded.learn(Place(3), True)
    assert bounded.rate(Place(3)) > free.rate(Place(3))


@pytest.mark.parametrize("copied", [3, 8, 30])
def test_an_answer_that_copies_from_itself_is_trusted_less(copied: int) -> None:
    assert prior(Place(copied, own=True)) < prior(Place(copied)) - 0.005
    assert prior(Place(2, own=True)) == prior(Place(2)), "a turn of phrase is as good from here as from there"


def test_a_text_that_is_copied_whole_is_soon_known_as_one() -> None:
    """By a step a verdict it took thousands: each teaches by how much it surprised."""
    seen, place = LookupAcceptance(), Place(40)
    for _ in range(100):
        seen.learn(place, True)
    assert 1.0 - seen.rate(place) < 0.4 * (1.0 - prior(place))


def test_what_was_learnt_of_fields_says_nothing_of_prose() -> None:
    """An answer under a grammar begins with less trust; that its copies stand as usual is no luck in the next."""
    seen, place = LookupAcceptance(), Place(8)
    usual = prior(place)
    rng = np.random.default_rng(5)
    seen.begin(bounded=True)
    assert seen.rate(place) < usual - 0.1
    for _ in range(400):
        seen.learn(place, bool(rng.random() < usual))
    seen.begin()
    assert seen.rate(place) == pytest.approx(usual)


@given(st.lists(st.tuples(st.sampled_from([1, 3, 8, 30, 200]), st.sampled_from(JOINTS), st.booleans()), max_size=300))
def test_whatever_happens_a_rate_is_a_probability(verdicts: list[tuple[int, Joint, bool]]) -> None:
    seen = LookupAcceptance()
    for copied, joint, stood in verdicts:
        place = Place(copied, joint=joint)
        assert 0.0 < seen.rate(place) < 1.0
        seen.learn(place, stood)


def test_what_breaks_at_sentences_is_still_trusted_within_them() -> None:
    seen = LookupAcceptance()
    within, behind = Place(20, joint="word"), Place(20, joint="sentence")
    for _ in range(6):
        for _ in range(20):
            seen.learn(within, True)
        seen.learn(behind, False)
    assert seen.rate(within) > prior(within)
    assert seen.rate(behind) < prior(behind)
