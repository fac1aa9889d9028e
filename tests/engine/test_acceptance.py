"""How likely tokens stand: priors in order, the text at hand followed, neither fooled by one cycle."""

import numpy as np
import pytest

from localspec.engine.acceptance import (
    DRAFT_PRIOR,
    ENOUGH_CONFIDENCE,
    WITNESSED,
    DraftAcceptance,
    LookupAcceptance,
    prior,
)
from localspec.engine.drafters.base import Place


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
    """Within forty verdicts, whatever the prior says."""
    rng = np.random.default_rng(3)
    seen, place = LookupAcceptance(), Place(3)
    rates = []
    for _ in range(400):
        seen.learn(place, bool(rng.random() < true))
        rates.append(seen.rate(place))
    assert np.mean(rates[40:]) == pytest.approx(true, abs=0.08)


def test_one_verdict_does_not_fool() -> None:
    seen, place = LookupAcceptance(), Place(3)
    before = seen.rate(place)
    seen.learn(place, False)
    assert before - 0.05 < seen.rate(place) < before


def test_the_luck_of_short_copies_says_nothing_of_long_ones() -> None:
    seen = LookupAcceptance()
    before = seen.rate(Place(30))
    for _ in range(30):
        seen.learn(Place(2), False)
    assert seen.rate(Place(30)) == before
    assert seen.rate(Place(2)) < 0.25


def test_a_new_answer_remembers_half() -> None:
    seen, place = LookupAcceptance(), Place(3)
    start = seen.rate(place)
    for _ in range(30):
        seen.learn(place, False)
    low = seen.rate(place)
    seen.begin()
    assert low < seen.rate(place) < start


def test_under_a_grammar_copies_are_trusted_less_until_they_stand() -> None:
    free, bounded = LookupAcceptance(), LookupAcceptance()
    bounded.begin(bounded=True)
    for place in (Place(3), Place(20)):
        assert bounded.rate(place) < free.rate(place)
    for _ in range(40):
        bounded.learn(Place(3), True)
    assert bounded.rate(Place(3)) > free.rate(Place(3))


def test_a_draft_model_is_first_taken_for_an_average_one() -> None:
    assert DraftAcceptance().rate == pytest.approx(DRAFT_PRIOR)
    assert not DraftAcceptance().informed


def test_the_targets_confidence_speaks_for_the_draft_model() -> None:
    sure, unsure = DraftAcceptance(), DraftAcceptance()
    for _ in range(int(ENOUGH_CONFIDENCE) + 8):
        sure.heard(0.99)
        unsure.heard(0.4)
    assert sure.informed
    assert unsure.rate < DRAFT_PRIOR < 0.9 < sure.rate


def test_verdicts_outweigh_what_was_thought_before() -> None:
    seen = DraftAcceptance()
    for _ in range(40):
        seen.heard(0.99)
    for _ in range(60):
        seen.learn(0.9, False)
    assert seen.rate < 0.45


@pytest.mark.parametrize("top", [0.2, 0.5, 0.9, 0.99])
def test_the_drafts_own_certainty_counts(top: float) -> None:
    seen = DraftAcceptance()
    assert seen.of(top - 0.1) < seen.of(top)
    before = seen.of(top)
    seen.learn(top, False)
    assert seen.of(top) < before


def test_of_a_pair_something_is_kept_over_answers() -> None:
    seen = DraftAcceptance()
    for _ in range(20):
        for _ in range(20):
            seen.learn(0.9, True)
        seen.begin()
    assert seen.rate > DRAFT_PRIOR + 0.1


@pytest.mark.parametrize("copied", [3, 8, 30])
def test_an_answer_that_copies_from_itself_is_trusted_less(copied: int) -> None:
    assert prior(Place(copied, own=True)) < prior(Place(copied)) - 0.005
    assert prior(Place(2, own=True)) == prior(Place(2)), "a turn of phrase is as good from here as from there"
