"""The bootstrap and the means, against answers worked out by hand."""

import math
from itertools import product
from statistics import median

import numpy as np
import pytest

from localspec.bench.stats import geometric_mean, interval, speedup


def test_ratios_are_averaged_as_ratios() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([4.0, 1.0, 1.0]) == pytest.approx(4 ** (1 / 3))
    assert geometric_mean([]) is None


def test_a_figure_is_a_mean_over_categories_of_means_over_prompts_of_medians_over_rounds() -> None:
    categories = [[[1.0, 4.0, 9.0], [1.0, 1.0, 7.0]], [[0.25]], [[]]]
    # (median 4, median 1) -> 2; 0.25; nothing.
    assert speedup(categories) == pytest.approx(math.sqrt(2 * 0.25))
    assert speedup([]) is None
    assert speedup([[[]]]) is None


def test_nothing_measured_twice_has_no_interval() -> None:
    assert interval([]) is None
    assert interval([[[1.5]]]) is None
    assert interval([[[1.5]], [[0.5]], [[]]]) is None
    assert interval([[[1.5, 1.5]]]) == (pytest.approx(1.5), pytest.approx(1.5))
    assert interval([[[1.5], [2.5]]]) is not None


def test_three_rounds_reach_from_the_least_to_the_most() -> None:
    """The median of three draws is the least value with probability 7/27, far above 2.5 %."""
    assert interval([[[1.0, 2.0, 3.0]]]) == (pytest.approx(1.0), pytest.approx(3.0))


def test_the_interval_of_many_rounds_is_the_exact_one() -> None:
    """Seven rounds: the bootstrap distribution of their median, counted out, gives the same quantiles."""
    rounds = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    # P(median <= k-th value) = P(at least 4 of 7 draws are among the k least).
    below = [
        sum(math.comb(7, hits) * (k / 7) ** hits * (1 - k / 7) ** (7 - hits) for hits in range(4, 8))
        for k in range(1, 8)
    ]
    low = next(value for value, share in zip(rounds, below, strict=True) if share >= 0.025)
    high = next(value for value, share in zip(rounds, below, strict=True) if share >= 0.975)
    assert interval([[rounds]], draws=20_000) == (pytest.approx(low), pytest.approx(high))
    assert (low, high) == (1.1, 1.5)


def test_prompts_are_drawn_within_their_category() -> None:
    """Two prompts, one round each: the mean of two draws is one of three values; a quarter lies at each end."""
    found = interval([[[1.0], [4.0]]])
    assert found == (pytest.approx(1.0), pytest.approx(4.0))
    drawn = [math.sqrt(a * b) for a, b in product([1.0, 4.0], repeat=2)]
    assert np.quantile(drawn, 0.5) == pytest.approx(2.0)
    # Beside a category that never varies the logarithms are halved.
    assert interval([[[1.0], [4.0]], [[1.0]]]) == (pytest.approx(1.0), pytest.approx(2.0))


def test_an_interval_narrows_with_the_rounds_and_holds_the_figure() -> None:
    rng = np.random.default_rng(3)
    few = [[list(np.exp(rng.normal(0.5, 0.2, 5))) for _ in range(2)] for _ in range(3)]
    many = [[list(np.exp(rng.normal(0.5, 0.2, 80))) for _ in range(2)] for _ in range(3)]
    (low, high), (closer, nearer) = interval(few) or (0.0, 0.0), interval(many) or (0.0, 0.0)
    assert high - low > 2 * (nearer - closer)
    assert closer < math.exp(0.5) < nearer
    assert low < (speedup(few) or 0) < high


def test_the_seed_decides() -> None:
    rounds = [[list(np.linspace(1, 2, 12)), list(np.linspace(1, 3, 12))]]
    assert interval(rounds) == interval(rounds)
    assert interval(rounds, seed=1) != interval(rounds)
    assert median(rounds[0][0]) == pytest.approx(1.5)
