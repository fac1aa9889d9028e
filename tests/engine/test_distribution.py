"""Distributions, dense and sparse, against the same arithmetic on full arrays (P7)."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution
from tests.engine.exact_law import ALMOST_ONE, Script, law

SIZE = 12


def as_dense(distribution: Distribution) -> NDArray[np.float64]:
    if distribution.ids is None:
        return distribution.probs
    full = np.zeros(SIZE)
    full[distribution.ids] = distribution.probs
    return full


@st.composite
def distributions(draw: st.DrawFn) -> Distribution:
    """Dense, sparse (with zeros among the stored ones too) or one-hot, over SIZE tokens."""
    weights = draw(st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=SIZE, max_size=SIZE))
    weights[draw(st.integers(0, SIZE - 1))] = 1.0
    probs = np.array(weights) / sum(weights)
    kind = draw(st.sampled_from(["dense", "sparse", "one-hot"]))
    if kind == "dense":
        return Distribution(None, probs)
    if kind == "one-hot":
        return Distribution.one_hot(int(probs.argmax()))
    stored = draw(st.sets(st.integers(0, SIZE - 1))) | set(probs.nonzero()[0].tolist())
    ids = np.array(sorted(stored), np.int32)
    return Distribution(ids, probs[ids])


@given(distributions())
def test_prob_and_argmax(distribution: Distribution) -> None:
    full = as_dense(distribution)
    assert [distribution.prob(token) for token in range(SIZE)] == full.tolist()
    assert distribution.argmax == int(full.argmax())


@given(distributions(), distributions())
def test_excess(one: Distribution, other: Distribution) -> None:
    """max(0, one - other), normalised, in every mixture of dense, sparse and one-hot; the operands stay."""
    before = as_dense(one).copy(), as_dense(other).copy()
    excess = one.excess(other)
    expected = np.maximum(as_dense(one) - as_dense(other), 0.0)
    if expected.sum() == 0.0:
        assert excess is None
    else:
        assert excess is not None
        assert as_dense(excess) == pytest.approx(expected / expected.sum(), rel=1e-12)
        assert (excess.ids is None) == (one.ids is None)
    assert (as_dense(one) == before[0]).all()
    assert (as_dense(other) == before[1]).all()


@given(distributions())
def test_nothing_exceeds_itself(distribution: Distribution) -> None:
    assert distribution.excess(distribution) is None


@given(distributions())
def test_the_law_of_a_draw_is_the_distribution(distribution: Distribution) -> None:
    """The measure of the uniforms that give each token is its probability."""
    outcomes = law(distribution.sample)
    full = as_dense(distribution)
    assert [outcomes.get(token, 0.0) for token in range(SIZE)] == pytest.approx(full.tolist(), abs=1e-11)
    assert all(full[token] > 0.0 for token in outcomes)


@given(distributions(), st.floats(0.0, 1.0, exclude_max=True))
def test_one_uniform_a_draw(distribution: Distribution, uniform: float) -> None:
    script = Script((uniform,))
    assert distribution.prob(distribution.sample(script)) > 0.0
    assert script.used == 1


@pytest.mark.parametrize("ids", [None, np.arange(6, dtype=np.int32)])
@pytest.mark.parametrize("total", [1.0, 1.0 - 2e-16, 1.0 + 4e-16, 0.5, 1.9999999999999998])
def test_the_outermost_uniforms_give_no_impossible_token(ids: NDArray[np.int32] | None, total: float) -> None:
    """Zeros at both ends, sums that rounding left beside 1."""
    distribution = Distribution(ids, np.array([0.0, 0.0, 0.3, 0.7, 0.0, 0.0]) * total)
    assert distribution.sample(Script((0.0,))) == 2
    assert distribution.sample(Script((ALMOST_ONE,))) == 3


def test_one_hot() -> None:
    """C3."""
    distribution = Distribution.one_hot(7)
    assert distribution.is_one_hot
    assert distribution.argmax == 7
    assert [distribution.prob(token) for token in (6, 7, 8)] == [0.0, 1.0, 0.0]
    assert {distribution.sample(Script((u,))) for u in (0.0, 0.5, ALMOST_ONE)} == {7}
    assert not Distribution(None, np.array([0.0, 1.0])).is_one_hot


def test_weights_are_normalised() -> None:
    distribution = Distribution.from_weights(None, np.array([1.0, 3.0]))
    assert distribution is not None
    assert distribution.probs.tolist() == [0.25, 0.75]
    assert Distribution.from_weights(None, np.zeros(3)) is None


def test_few_tokens_cost_nothing_of_the_vocabulary() -> None:
    """P7: at 151,936 tokens a one-hot or filtered distribution, its draws and excess take a few kilobytes."""
    tokens = np.arange(0, 151_936, 4_000, dtype=np.int32)
    sparse = Distribution.from_weights(tokens, np.arange(1.0, len(tokens) + 1))
    assert sparse is not None
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        hot = Distribution.one_hot(151_935)
        hot.excess(sparse)
        sparse.excess(hot)
        sparse.sample(rng)
        hot.sample(rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000
