"""The chi-square written out here against scipy's, and what its bound on a bias promises."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from localspec.engine.proof import chisquare


@pytest.mark.parametrize("freedom", [1, 2, 5, 17, 60])
def test_the_functions_are_scipys(freedom: int) -> None:
    for x in (0.1, 1.0, 5.0, 20.0, 60.0, 120.0):
        assert chisquare.survival(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-9, abs=1e-13)
    bound = stats.chi2.isf(1e-4, freedom)
    assert chisquare.critical(1e-4, freedom) == pytest.approx(bound)
    for noncentrality in (1.0, 10.0, 40.0, 200.0):
        wanted = stats.ncx2.sf(bound, freedom, noncentrality)
        assert chisquare.power(noncentrality, freedom, 1e-4) == pytest.approx(wanted, abs=1e-8)


def test_counts_against_a_law() -> None:
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    tested = chisquare.test({"a": 48, "b": 32, "c": 20}, shares)
    assert tested.p == pytest.approx(stats.chisquare([48, 32, 20], [50, 30, 20]).pvalue)
    assert (tested.draws, tested.classes) == (100, 3)
    assert chisquare.test({"a": 100}, shares).p < 1e-15


def test_rare_outcomes_are_one_class() -> None:
    shares = {"a": 0.5, "b": 0.4} | dict.fromkeys(range(100), 0.001)
    counts = {"a": 50, "b": 40, 3: 4, 7: 6}
    tested = chisquare.test(counts, shares)
    assert tested.classes == 3
    assert tested.p == pytest.approx(1.0)
    # Too rare even together: they go with the rarest of the others.
    tested = chisquare.test({"a": 60, "b": 38, 3: 2}, {"a": 0.6, "b": 0.38, 3: 0.02})
    assert tested.classes == 2
    assert tested.p == pytest.approx(1.0)


def test_an_outcome_the_law_does_not_have_is_no_chance() -> None:
    assert chisquare.test({"a": 60, "b": 40, "x": 1}, {"a": 0.6, "b": 0.4}).p == 0.0


@pytest.mark.parametrize("draws", [1, 4, 6, 9])
def test_too_few_draws_tell_nothing_against_anybody(draws: int) -> None:
    """No outcome is expected often enough for a class of its own: that is no bias."""
    tested = chisquare.test({"a": draws - 1, "b": 1}, {"a": 0.5, "b": 0.3, "c": 0.2})
    assert tested.p > 1e-3
    assert chisquare.test({"x": draws}, {"a": 1e-3, "b": 1e-3}).p == 1.0


def test_one_class_tells_nothing() -> None:
    tested = chisquare.test({"a": 9}, {"a": 1.0})
    assert (tested.p, tested.smallest_bias(1e-4, 0.9)) == (1.0, None)
    assert chisquare.test({}, {"a": 1.0}).smallest_bias(1e-4, 0.9) is None


def test_the_smallest_bias_is_caught_as_often_as_is_said() -> None:
    """Of a law moved by that total variation, in the way that shows least."""
    draws, level, wanted, shares = 600, 1e-3, 0.9, np.full(6, 1 / 6)
    bias = chisquare.smallest_bias(draws, len(shares) - 1, level, wanted)
    moved = shares + np.array([1, -1] * 3) * bias / 3
    rng = np.random.default_rng(5)
    seen = 0
    for _ in range(1_000):
        counts = Counter(dict(enumerate(rng.multinomial(draws, moved).tolist())))
        seen += chisquare.test(counts, dict(enumerate(shares.tolist()))).p < level
    assert 0.87 < seen / 1_000 < 0.93
    assert chisquare.smallest_bias(4 * draws, 5, level, wanted) == pytest.approx(bias / 2)
