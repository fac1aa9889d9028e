"""How likely a draft model's tokens stand: what is known beforehand, and what verdicts make of it."""

import pytest

from localspec.engine.acceptance import DRAFT_PRIOR, ENOUGH_CONFIDENCE, DraftAcceptance


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
