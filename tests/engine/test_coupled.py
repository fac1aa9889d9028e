"""The coupled rule and its noise: the law over all noise, theory's acceptance, and one text whatever is drafted."""

import itertools
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from localspec.engine import noise as noise_module
from localspec.engine.coupled import coupled
from localspec.engine.distribution import Distribution
from localspec.engine.noise import Noise, gumbel
from tests.engine.exact_law import Script, law
from tests.engine.rule_law import (
    BIASED,
    EXACT,
    SHAPES,
    SITUATIONS,
    Tokens,
    Tree,
    dense,
    distance,
    filtered,
    pairs,
    tree,
)

ACCEPTED_P = 1e-4


class Shared(Noise):
    """One uniform of the script for each position, heard by whoever draws there: inversion instead of the argmax."""

    def __init__(self, script: Script, place: Callable[[int], int] = lambda position: position) -> None:
        super().__init__(0)
        self._script, self._place = script, place
        self._heard: dict[int, float] = {}

    def draw(self, law: Distribution, position: int) -> int:
        place = self._place(position)
        if place not in self._heard:
            self._heard[place] = self._script.random()
        heard = Script((self._heard[place],))
        return law.sample(heard)


def cycle(
    target: Tree, draft: Tree, length: int, place: Callable[[int], int] = lambda p: p
) -> Callable[[Script], Tokens]:
    """A draft drawn with the noise that the target hears, then judged."""

    def process(script: Script) -> Tokens:
        noise = Shared(script, place)
        tokens: Tokens = ()
        for at in range(length):
            tokens += (noise.draw(draft(tokens), at),)
        script.note(tokens)
        return judged(target, tokens, noise, script)

    return process


def judged(target: Tree, tokens: Tokens, noise: Noise, script: Script) -> Tokens:
    verdict = coupled(tokens, lambda i: target(tokens[:i]), noise, 0)
    script.note(verdict.accepted)
    return (*tokens[: verdict.accepted], verdict.token)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(("size", "length"), SHAPES)
def test_coupled_keeps_the_targets_law(situation: str, size: int, length: int) -> None:
    """Over all noise that is fresh at each position and the same for both: exactly the target's law."""
    for seed in range(10, 40 // length**2 + 10, 4):
        target, draft = next((t, d) for name, t, d in pairs(size, seed) if name == situation)
        assert distance(cycle(target, draft, length), target, size, length) < EXACT


@pytest.mark.parametrize(("size", "length"), [(3, 1), (4, 2), (3, 3)])
def test_certain_drafts_keep_the_targets_law(size: int, length: int) -> None:
    """Lookup: the target's own draw is compared with a token that hears no noise."""
    target = tree(size, 4, dense(size))
    for tokens in itertools.product(range(size), repeat=length):

        def process(script: Script, tokens: Tokens = tokens) -> Tokens:
            return judged(target, tokens, Shared(script), script)

        assert distance(process, target, size, length) < EXACT


@pytest.mark.parametrize(("size", "length"), [(3, 2), (4, 2)])
def test_noise_heard_again_at_the_next_position_fails(size: int, length: int) -> None:
    """A planted fault: a key without the position."""
    target, draft = tree(size, 5, dense(size)), tree(size, 6, dense(size))
    assert distance(cycle(target, draft, length, lambda position: 0), target, size, length) > BIASED


# -- the draw --


class Scripted(Noise):
    """Its uniforms are given."""

    def __init__(self, uniforms: list[float]) -> None:
        super().__init__(0)
        self._given = np.array(uniforms)

    def uniforms(self, ids: np.ndarray, position: int) -> np.ndarray:
        return self._given


@pytest.mark.parametrize("weights", [(1, 3), (1, 2, 3), (1, 1, 2), (2, 4, 6, 2)])
def test_the_argmax_follows_the_law_exactly(weights: tuple[int, ...]) -> None:
    """P(first token), by quadrature over its u, exact for the polynomial it is; the rest measured on the code.

    Given the first token's u each other token must stay below a bound of its own, found here by halving.
    """
    probs = np.array(weights) / sum(weights)
    law = Distribution(np.arange(len(probs), dtype=np.int32), probs)
    nodes, shares = np.polynomial.legendre.leggauss(12)

    def wins(u: list[float]) -> bool:
        return Scripted(u).draw(law, 0) == 0

    def bound(first: float, other: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            u = [first, *[1e-300] * (len(probs) - 1)]
            u[other] = middle
            low, high = (middle, high) if wins(u) else (low, middle)
        return low

    total = sum(
        share / 2 * math.prod(bound((node + 1) / 2, other) for other in range(1, len(probs)))
        for node, share in zip(nodes, shares, strict=True)
    )
    assert total == pytest.approx(probs[0], abs=EXACT)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8), st.integers(0, 2**64 - 1), st.integers(0, 10**6))
def test_the_draw_is_the_argmax_of_log_probability_plus_gumbel_noise(
    weights: list[float], seed: int, position: int
) -> None:
    ids = np.arange(3, 3 + 5 * len(weights), 5, dtype=np.int32)
    law = Distribution.from_weights(ids, np.array(weights))
    assert law is not None
    noise = Noise(seed)
    scores = np.log(law.probs) + gumbel(noise.uniforms(ids, position))
    assert noise.draw(law, position) == ids[scores.argmax()]


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0, 30.0])
def test_a_row_of_the_whole_vocabulary_draws_the_same_as_its_tokens(spread: float) -> None:
    """What is passed over without a logarithm could not have won, in flat rows and in sharp ones, zeros among them."""
    rng, size = np.random.default_rng(1), 5_000
    ids = np.arange(size, dtype=np.int32)
    for seed in range(60):
        logits = rng.normal(size=size) * spread
        weights = np.exp(logits - logits.max()) * (rng.random(size) < 0.9)
        weights[seed] = 1.0
        full = Distribution.from_weights(None, weights)
        assert full is not None
        possible = full.probs.nonzero()[0]
        sparse = Distribution(ids[possible], full.probs[possible])
        noise = Noise(seed)
        for position in range(5):
            assert noise.draw(full, position) == noise.draw(sparse, position)


def test_a_bound_that_passes_over_too_much_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: only the likely tokens are scored."""
    monkeypatch.setattr(noise_module, "_bound", lambda score: np.uint64(2**64 - 1))
    with pytest.raises(AssertionError):
        test_a_row_of_the_whole_vocabulary_draws_the_same_as_its_tokens(1.0)


def test_unlikely_tokens_win_as_often_as_their_probability_says() -> None:
    """A law of one token of 1/2 and a flat tail: half of the draws are the tail's, and each of it as often."""
    size, draws = 2_000, 20_000
    probs = np.full(size, 0.5 / (size - 1))
    probs[0] = 0.5
    drawn = Counter(Noise(3).draw(Distribution(None, probs), position) for position in range(draws))
    assert stats.binomtest(drawn[0], draws, 0.5).pvalue > ACCEPTED_P
    tail = [sum(drawn[token] for token in range(1 + 100 * part, 1 + 100 * part + 99)) for part in range(19)]
    assert stats.chisquare(tail).pvalue > ACCEPTED_P


def test_the_noise_is_keyed_by_the_id_and_never_by_the_rank() -> None:
    """A filter takes tokens away; those that stay hear what they heard."""
    noise, ids = Noise(5), np.array([2, 7, 11, 100_000], np.int32)
    whole = noise.uniforms(np.arange(151_936, dtype=np.int32), 9)
    assert np.array_equal(noise.uniforms(ids, 9), whole[ids])


def test_uniforms_are_inside_0_and_1_at_the_ends_of_the_hash() -> None:
    ends = noise_module._uniforms(np.array([0, 2**64 - 1], np.uint64))
    assert 0.0 < ends[0] < ends[1] < 1.0
    assert np.isfinite(gumbel(ends)).all()


@pytest.mark.parametrize("along", ["token", "position", "seed"])
def test_noise_is_uniform_and_independent_of_its_neighbours(along: str) -> None:
    """Over tokens, positions and seeds alike: neighbouring u as pairs fill the square evenly."""
    count, sides = 40_000, 10
    some = np.array([17], np.int32)
    if along == "token":
        u = Noise(1).uniforms(np.arange(count, dtype=np.int32), 3)
    elif along == "position":
        u = np.array([Noise.uniforms(one, some, at)[0] for one in [Noise(1)] for at in range(count)])
    else:
        u = np.array([Noise(seed).uniforms(some, 3)[0] for seed in range(count)])
    cells, _, _ = np.histogram2d(u[:-1:2], u[1::2], bins=sides, range=[[0, 1], [0, 1]])
    assert stats.chisquare(cells.ravel()).pvalue > ACCEPTED_P
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / math.sqrt(count)


@pytest.mark.parametrize("size", [2, 6])
def test_the_draws_of_a_text_follow_the_law_jointly(size: int) -> None:
    """Pairs of neighbouring positions over many seeds: the product of the two laws."""
    draws = 20_000
    first, second = (dense(size)(np.random.default_rng(seed)) for seed in (1, 2))
    counts = Counter((Noise(seed).draw(first, 7), Noise(seed).draw(second, 8)) for seed in range(draws))
    pairs_ = list(itertools.product(range(size), repeat=2))
    expected = [draws * first.prob(a) * second.prob(b) for a, b in pairs_]
    kept = [i for i, value in enumerate(expected) if value > 5]
    observed = [counts[pairs_[i]] for i in kept]
    scale = sum(observed) / sum(expected[i] for i in kept)
    assert stats.chisquare(observed, [expected[i] * scale for i in kept]).pvalue > ACCEPTED_P


# -- how much is accepted --


def agreement(target: Distribution, draft: Distribution, size: int) -> float:
    """P(both argmaxes agree), Daliri et al. 2025: sum over x of 1 / sum over y of max(p_y / p_x, q_y / q_x)."""
    total = 0.0
    for x in range(size):
        p, q = target.prob(x), draft.prob(x)
        if p and q:
            total += 1.0 / sum(max(target.prob(y) / p, draft.prob(y) / q) for y in range(size))
    return total


@pytest.mark.parametrize("row", [dense, lambda size: filtered(size, 1.0)])
def test_target_and_draft_agree_as_often_as_theory_says(row: Callable[[int], Callable]) -> None:
    size, draws = 5, 20_000
    rng = np.random.default_rng(8)
    for _ in range(3):
        target, draft = row(size)(rng), row(size)(rng)
        noise = Noise(2)
        agreed = sum(
            coupled([noise.draw(draft, at)], [target, target].__getitem__, noise, at).accepted for at in range(draws)
        )
        expected = agreement(target, draft, size)
        distance_ = target.surplus(draft)
        assert (1 - distance_) / (1 + distance_) - EXACT <= expected <= 1 - distance_ + EXACT
        assert stats.binomtest(agreed, draws, min(1.0, expected)).pvalue > ACCEPTED_P


def test_a_draft_that_hears_other_noise_agrees_less() -> None:
    """A planted fault that costs no exactness, only acceptance: the draft draws with a seed of its own."""
    law_, noise, other = dense(5)(np.random.default_rng(3)), Noise(2), Noise(3)
    same = sum(noise.draw(law_, at) == noise.draw(law_, at) for at in range(500))
    strange = sum(noise.draw(law_, at) == other.draw(law_, at) for at in range(500))
    assert same == 500
    assert strange < 350


# -- one text --


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 3), max_size=40),
    st.lists(st.integers(0, 6), min_size=30, max_size=30),
)
def test_the_text_is_the_same_whatever_is_drafted_and_however_much(
    seed: int, guesses: list[int], lengths: list[int]
) -> None:
    """Drafts of any origin and any length change which cycle a token comes from, and no token."""
    target, noise, wanted = tree(4, 2, dense(4)), Noise(seed), 12
    plain: Tokens = ()
    while len(plain) < wanted:
        plain += (noise.draw(target(plain), len(plain)),)
    text: Tokens = ()
    supply, sizes = iter(itertools.cycle(guesses or [0])), iter(lengths)
    while len(text) < wanted:
        draft = tuple(itertools.islice(supply, next(sizes)))
        base = text
        verdict = coupled(draft, lambda i, base=base, draft=draft: target((*base, *draft[:i])), noise, len(base))
        text += (*draft[: verdict.accepted], verdict.token)
    assert text[:wanted] == plain


def test_rows_are_asked_for_in_order_and_only_when_needed() -> None:
    calls: list[int] = []

    def target(i: int) -> Distribution:
        calls.append(i)
        return Distribution.one_hot(1)

    verdict = coupled([1, 0, 1], target, Noise(0), 0)
    assert (verdict.accepted, verdict.token, calls) == (1, 1, [0, 1])


def test_seeds_and_positions_make_other_texts() -> None:
    """A seed used again later in the conversation draws other tokens."""
    flat = Distribution(None, np.full(50, 0.02))

    def drawn(seed: int, start: int) -> list[int]:
        return [Noise(seed).draw(flat, start + at) for at in range(20)]

    assert drawn(1, 0) == drawn(1, 0)
    assert drawn(1, 0) != drawn(2, 0)
    assert sum(a == b for a, b in zip(drawn(1, 0), drawn(1, 100), strict=True)) < 8


def test_law_of_shared_noise_counts_all_of_it() -> None:
    """The enumeration is one: of outcomes that it leaves out nothing could be said."""
    target, draft = tree(3, 1, dense(3)), tree(3, 2, dense(3))
    assert sum(law(cycle(target, draft, 2)).values()) == pytest.approx(1.0, abs=1e-12)
