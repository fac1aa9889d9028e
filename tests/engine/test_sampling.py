"""The filters against llama.cpp's own samplers, and what they promise beside (C3, C5, P7)."""

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution
from localspec.engine.errors import EngineError
from localspec.engine.requests import SamplerSettings
from localspec.engine.sampling import Sampler, validate

VOCABULARY = 200
OFF = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
NONE: tuple[int, ...] = ()

Row = NDArray[np.float32]


def probabilities(distribution: Distribution) -> dict[int, float]:
    ids = range(len(distribution.probs)) if distribution.ids is None else distribution.ids.tolist()
    return dict(zip(ids, distribution.probs.tolist(), strict=True))


def llama_cpp_chain(settings: SamplerSettings, logits: Row, history: Sequence[int]) -> dict[int, float]:
    """What llama.cpp's default chain leaves of a row, as probabilities by token."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import llama_cpp as lib

    size = len(logits)
    biases = (lib.llama_logit_bias * len(settings.logit_bias))(
        *(lib.llama_logit_bias(token, bias) for token, bias in settings.logit_bias.items())
    )
    penalties = lib.llama_sampler_init_penalties(
        size,
        settings.penalty_last_n,
        settings.repeat_penalty,
        settings.frequency_penalty,
        settings.presence_penalty,
    )
    chain = [
        lib.llama_sampler_init_logit_bias(size, len(biases), biases),
        penalties,
        lib.llama_sampler_init_top_k(settings.top_k),
        lib.llama_sampler_init_top_p(settings.top_p, 1),
        lib.llama_sampler_init_min_p(settings.min_p, 1),
        lib.llama_sampler_init_temp(settings.temperature),
    ]
    for token in history:
        lib.llama_sampler_accept(penalties, token)
    data = (lib.llama_token_data * size)(*(lib.llama_token_data(i, logit, 0.0) for i, logit in enumerate(logits)))
    row = lib.llama_token_data_array(data, size, -1, False)
    for sampler in chain:
        lib.llama_sampler_apply(sampler, ctypes.byref(row))
        lib.llama_sampler_free(sampler)
    left = [row.data[i] for i in range(row.size)]
    best = max(entry.logit for entry in left)
    weights = {entry.id: math.exp(entry.logit - best) for entry in left if entry.logit > -math.inf}
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items() if weight > 0.0}


def random_settings(rng: np.random.Generator) -> SamplerSettings:
    """Each option off or anywhere in its useful range."""

    def maybe(low: float, high: float, off: float) -> float:
        return float(np.float32(rng.uniform(low, high))) if rng.random() < 0.6 else off

    biased = rng.choice(VOCABULARY, size=int(rng.integers(0, 6)), replace=False).tolist()
    return SamplerSettings(
        temperature=float(np.float32(rng.choice([0.0, 0.3, 0.8, 1.0, 1.7]))),
        top_k=int(rng.choice([0, 1, 2, 5, 40, VOCABULARY, VOCABULARY + 7])),
        top_p=maybe(0.0, 1.0, 1.0),
        min_p=maybe(0.0, 0.5, 0.0),
        repeat_penalty=maybe(0.7, 1.5, 1.0),
        frequency_penalty=maybe(-0.5, 1.0, 0.0),
        presence_penalty=maybe(-0.5, 1.0, 0.0),
        penalty_last_n=int(rng.choice([0, 3, 20, 64])),
        logit_bias={token: float(rng.choice([-np.inf, -2.0, 3.0])) for token in biased},
    )


@pytest.mark.parametrize("seed", range(400))
def test_equals_llama_cpp(seed: int) -> None:
    """The same candidates with the same probabilities as llama.cpp's default chain, in float32 rounding."""
    rng = np.random.default_rng(seed)
    settings = random_settings(rng)
    logits = (rng.normal(size=VOCABULARY) * rng.choice([0.5, 3.0])).astype(np.float32)
    history = rng.integers(0, 30, size=int(rng.integers(0, 90))).tolist()
    ours = probabilities(Sampler(settings, VOCABULARY).distribution(logits, history))
    theirs = llama_cpp_chain(settings, logits, history)
    assert {token for token, prob in ours.items() if prob > 0.0} == set(theirs)
    for token, prob in theirs.items():
        assert ours[token] == pytest.approx(prob, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_ties_keep_as_many_as_llama_cpp(seed: int) -> None:
    """Which of equals stays is open in llama.cpp; how many, and with what probabilities, is not."""
    rng = np.random.default_rng(seed)
    settings = replace(random_settings(rng), repeat_penalty=1.0, logit_bias={}, temperature=0.8)
    logits = rng.integers(0, 4, size=VOCABULARY).astype(np.float32)
    ours = probabilities(Sampler(settings, VOCABULARY).distribution(logits, NONE))
    theirs = llama_cpp_chain(settings, logits, NONE)
    assert sorted(ours.values()) == pytest.approx(sorted(theirs.values()), rel=1e-4)


def test_of_equals_the_lowest_ids_stay() -> None:
    logits = np.array([1, 2, 1, 2, 1, 2], np.float32)
    assert list(probabilities(Sampler(replace(OFF, top_k=2), 6).distribution(logits, NONE))) == [1, 3]
    assert list(probabilities(Sampler(replace(OFF, top_k=4), 6).distribution(logits, NONE))) == [0, 1, 3, 5]
    assert list(probabilities(Sampler(replace(OFF, top_p=0.4), 6).distribution(logits, NONE))) == [1, 3]
    assert Sampler(replace(OFF, temperature=0.0), 6).distribution(logits, NONE).argmax == 1


def test_the_token_that_reaches_top_p_is_kept() -> None:
    """The cut is inclusive: of eight equals a top-p of .5 keeps four."""
    logits = np.log(np.array([0.25, 0.5, 0.25])).astype(np.float32)
    kept = [list(probabilities(Sampler(replace(OFF, top_p=p), 3).distribution(logits, NONE))) for p in (0.49, 0.6, 0.8)]
    assert kept == [[1], [0, 1], [0, 1, 2]]
    assert Sampler(replace(OFF, top_p=0.0), 3).distribution(logits, NONE).is_one_hot
    equals = np.zeros(8, np.float32)
    assert list(probabilities(Sampler(replace(OFF, top_p=0.5), 8).distribution(equals, NONE))) == [0, 1, 2, 3]
    assert list(probabilities(Sampler(replace(OFF, top_k=4, top_p=0.5), 8).distribution(equals, NONE))) == [0, 1]


@pytest.mark.parametrize("top_p", [0.0, 0.1, 0.5, 0.9, 0.999, 0.9999999999999999])
@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0, 60.0])
def test_top_p_alone_equals_sorting_everything(top_p: float, spread: float) -> None:
    """Only one bucket of logits is sorted; the result is that of the plain definition."""
    rng = np.random.default_rng(int(spread * 100))
    size = 30_000
    logits = np.round(rng.normal(size=size) * spread, 2).astype(np.float32)
    probs = np.exp(logits.astype(np.float64) - logits.max())
    probs /= probs.sum()
    order = (-logits).argsort(kind="stable")
    before = np.concatenate([[0.0], probs[order].cumsum()[:-1]])
    kept = sorted(order[before < max(top_p, 1e-300)].tolist())
    ours = list(probabilities(Sampler(replace(OFF, top_p=top_p), size).distribution(logits, NONE)))
    # Sums taken in another order differ in the last digits: a cut among equal tails may move, the mass cut off not.
    assert abs(probs[ours].sum() - probs[kept].sum()) < 1e-12
    if top_p < 0.9999:
        assert ours == kept


@pytest.mark.parametrize("count", [1, 7, 40, 500, 29_999, 30_000])
@pytest.mark.parametrize("levels", [3, 1000, 10**9])
def test_top_k_of_a_large_vocabulary(count: int, levels: int) -> None:
    """Whatever the ties, exactly k tokens stay: the largest logits, of equals the lowest ids."""
    logits = np.random.default_rng(count).integers(0, levels, size=30_000).astype(np.float32)
    ours = list(probabilities(Sampler(replace(OFF, top_k=count, temperature=1e9), 30_000).distribution(logits, NONE)))
    assert ours == sorted((-logits).argsort(kind="stable")[:count].tolist())


def test_temperature_zero_is_the_argmax() -> None:
    """C3: one-hot, whatever the other filters; after bias and penalties."""
    logits = np.array([1.0, 3.0, 2.5, -1.0], np.float32)
    for settings in (SamplerSettings(temperature=0.0), replace(OFF, temperature=0.0)):
        distribution = Sampler(settings, 4).distribution(logits, NONE)
        assert distribution.is_one_hot
        assert distribution.argmax == 1
        assert distribution.prob(1) == 1.0
    assert Sampler(replace(OFF, temperature=0.0), 4).greedy
    assert not Sampler(OFF, 4).greedy
    assert Sampler(replace(OFF, temperature=0.0, presence_penalty=0.6), 4).argmax(logits, [1]) == 2
    assert Sampler(replace(OFF, temperature=0.0, logit_bias={3: 9.0}), 4).argmax(logits, NONE) == 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-6, 1e-3])
@pytest.mark.parametrize("filters", [OFF, SamplerSettings(), replace(OFF, top_k=3)])
def test_tiny_temperatures_do_not_overflow(temperature: float, filters: SamplerSettings) -> None:
    """C3: they come out as the argmax does, from the path that computes probabilities."""
    logits = np.array([1000.0, 999.0, -1000.0, 1e30, -1e30, -np.inf], np.float32)
    distribution = Sampler(replace(filters, temperature=temperature), 6).distribution(logits, NONE)
    assert distribution.prob(3) == 1.0
    assert np.isfinite(distribution.probs).all()
    assert distribution.is_one_hot == (filters is not OFF)


def test_equal_best_tokens_share_at_tiny_temperatures() -> None:
    distribution = Sampler(replace(OFF, temperature=1e-6), 3).distribution(np.array([2, 1, 2], np.float32), NONE)
    assert probabilities(distribution) == {0: 0.5, 1: 0.0, 2: 0.5}


@pytest.mark.parametrize("settings", [SamplerSettings(), OFF, replace(OFF, min_p=0.9), replace(OFF, top_p=0.9)])
def test_a_forbidden_token_never_comes(settings: SamplerSettings) -> None:
    """Also where nearly all are forbidden, as under a grammar."""
    size = 5000
    forbidden = {token: -math.inf for token in range(size) if token not in (17, 4000)}
    sampler = Sampler(replace(settings, logit_bias=forbidden), size)
    distribution = sampler.distribution(np.zeros(size, np.float32), NONE)
    assert {token for token, prob in probabilities(distribution).items() if prob > 0.0} == {17, 4000}
    rng = np.random.default_rng(1)
    assert {distribution.sample(rng) for _ in range(50)} == {17, 4000}


def test_repetition_divides_positive_and_multiplies_negative_logits() -> None:
    logits = np.array([2.0, -2.0, 0.0, 1.0], np.float32)
    probs = probabilities(Sampler(replace(OFF, repeat_penalty=2.0), 4).distribution(logits, [0, 1, 2, 0]))
    expected = np.exp(np.array([1.0, -4.0, 0.0, 1.0]))
    assert list(probs.values()) == pytest.approx(expected / expected.sum())


def test_frequency_counts_and_presence_does_not() -> None:
    logits = np.zeros(3, np.float32)
    settings = replace(OFF, frequency_penalty=0.5, presence_penalty=0.25)
    probs = probabilities(Sampler(settings, 3).distribution(logits, [0, 0, 0, 1]))
    expected = np.exp(np.array([-1.75, -0.75, 0.0]))
    assert list(probs.values()) == pytest.approx(expected / expected.sum())


@pytest.mark.parametrize(("last_n", "penalised"), [(0, set()), (1, {2}), (2, {1, 2}), (-1, {0, 1, 2}), (99, {0, 1, 2})])
def test_penalties_look_at_the_last_tokens_only(last_n: int, penalised: set[int]) -> None:
    settings = replace(OFF, presence_penalty=1.0, penalty_last_n=last_n)
    probs = probabilities(Sampler(settings, 4).distribution(np.zeros(4, np.float32), [0, 1, 2]))
    assert {token for token in range(4) if probs[token] < max(probs.values())} == penalised


@given(st.lists(st.integers(0, 7), max_size=12), st.lists(st.integers(0, 7), max_size=12))
def test_a_row_depends_on_its_history_alone(first: list[int], rejected: list[int]) -> None:
    """C5: rows scored for rejected draft tokens leave no trace in the next."""
    settings = replace(OFF, frequency_penalty=0.3, repeat_penalty=1.2, penalty_last_n=8)
    logits = np.linspace(-1, 1, 8, dtype=np.float32)
    used = Sampler(settings, 8)
    for count in range(len(rejected)):
        used.distribution(logits, first + rejected[:count])
    fresh = Sampler(settings, 8).distribution(logits, first)
    assert probabilities(used.distribution(logits, first)) == probabilities(fresh)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_logits_are_only_read(temperature: float) -> None:
    """They are the native library's memory. P7: nor is a history of the whole context multiplied by the vocabulary."""
    logits = np.random.default_rng(3).normal(size=VOCABULARY).astype(np.float32)
    before = logits.copy()
    logits.flags.writeable = False
    settings = replace(OFF, temperature=temperature, repeat_penalty=1.3, logit_bias={4: 1.0}, top_p=0.9, top_k=9)
    for one in (settings, replace(settings, logit_bias={}), replace(settings, top_k=0), replace(settings, top_p=1.0)):
        Sampler(one, VOCABULARY).distribution(logits, [1, 2, 3])
    assert (logits == before).all()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_numbers(temperature: float, bad: float) -> None:
    logits = np.zeros(VOCABULARY, np.float32)
    logits[150] = bad
    with pytest.raises(EngineError, match="not a number"):
        Sampler(SamplerSettings(temperature=temperature), VOCABULARY).distribution(logits, NONE)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_token_forbidden(temperature: float) -> None:
    settings = SamplerSettings(temperature=temperature, logit_bias=dict.fromkeys(range(5), -math.inf))
    with pytest.raises(EngineError, match="no token is allowed"):
        Sampler(settings, 5).distribution(np.zeros(5, np.float32), NONE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: replace(s, temperature=-0.1), "temperature must be a finite number, 0 or more, not -0.1"),
        (lambda s: replace(s, temperature=math.nan), "temperature must be a finite number, 0 or more, not nan"),
        (lambda s: replace(s, temperature=math.inf), "temperature must be a finite number, 0 or more, not inf"),
        (lambda s: replace(s, top_k=-1), r"top_k must be a whole number, 0 \(off\) or more, not -1"),
        (lambda s: replace(s, top_k=4.5), "top_k must be a whole number"),
        (lambda s: replace(s, top_p=1.01), "top_p must be between 0 and 1, not 1.01"),
        (lambda s: replace(s, top_p=-0.01), "top_p must be between 0 and 1"),
        (lambda s: replace(s, top_p=math.nan), "top_p must be between 0 and 1, not nan"),
        (lambda s: replace(s, min_p=2.0), "min_p must be between 0 and 1"),
        (lambda s: replace(s, repeat_penalty=0.0), "repeat_penalty must be a finite number above 0, not 0.0"),
        (lambda s: replace(s, frequency_penalty=math.inf), "frequency_penalty must be a finite number, not inf"),
        (lambda s: replace(s, presence_penalty=math.nan), "presence_penalty must be a finite number, not nan"),
        (lambda s: replace(s, penalty_last_n=-2), r"penalty_last_n must be a whole number, -1 \(all\), 0 \(off\)"),
        (lambda s: replace(s, logit_bias={200: 1.0}), "logit_bias names token 200; this model's tokens are 0 to 199"),
        (lambda s: replace(s, logit_bias={-1: 1.0}), "logit_bias names token -1"),
        (lambda s: replace(s, logit_bias={5: math.nan}), "logit_bias of token 5 must be a finite number or -inf"),
        (lambda s: replace(s, logit_bias={5: math.inf}), "logit_bias of token 5 must be a finite number or -inf"),
    ],
)
def test_out_of_range(change: Callable[[SamplerSettings], SamplerSettings], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Sampler(change(SamplerSettings()), VOCABULARY)


def test_in_range() -> None:
    validate(SamplerSettings(), VOCABULARY)
    validate(SamplerSettings(0.0, 0, 0.0, 1.0, 0.5, -2.0, -2.0, -1, {0: -math.inf, 199: -3.0}), VOCABULARY)
