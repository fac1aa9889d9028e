"""From ratios to one figure, and how far to trust it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
"""Resamplings: the ends of a 95 % interval then move by less than a per cent of its width from seed to seed."""

LEVEL = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio, and the ends of its 95 % bootstrap interval (null: of one ratio there is none)."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


Prompts = Sequence[Sequence[float]]
"""Ratios of a category: by prompt, then by round."""


def geometric_mean(values: Sequence[float]) -> float | None:
    """None of nothing. Ratios are averaged as ratios: twice as fast and half as fast give 1."""
    return math.exp(math.fsum(math.log(value) for value in values) / len(values)) if values else None


def speedup(categories: Sequence[Prompts]) -> float | None:
    """The median over the rounds of a prompt, geometric means over a category's prompts and over the categories."""
    means = [geometric_mean([median(rounds) for rounds in prompts if rounds]) for prompts in categories]
    return geometric_mean([mean for mean in means if mean is not None])


def interval(categories: Sequence[Prompts], *, seed: int = 0, draws: int = DRAWS) -> tuple[float, float] | None:
    """The bootstrap interval (percentiles, `LEVEL`) of `speedup`; None where nothing was measured twice.

    Rounds are drawn anew within their prompt, prompts within their category; the categories are what was asked for,
    and stay. A single prompt stands for itself alone: its interval knows of rounds, not of other prompts.

    Source: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13.
    """
    known = [found for prompts in categories if (found := [np.log(rounds) for rounds in prompts if len(rounds)])]
    if all(len(prompts) == 1 == len(prompts[0]) for prompts in known):
        return None
    rng = np.random.default_rng(seed)
    logs = np.zeros(draws)
    for prompts in known:
        count = len(prompts)
        drawn = np.stack([_medians(rounds, draws, count, rng) for rounds in prompts])
        chosen = rng.integers(count, size=(draws, count))
        logs += drawn[chosen, np.arange(draws)[:, None], np.arange(count)[None, :]].mean(axis=1)
    low, high = np.quantile(np.exp(logs / len(known)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _medians(rounds: Floats, draws: int, count: int, rng: np.random.Generator) -> Floats:
    """Medians of resampled rounds, shape (draws, count): one for every place the prompt may be drawn for."""
    again = rounds[rng.integers(len(rounds), size=(draws, count, len(rounds)))]
    middle: Floats = np.median(again, axis=2)
    return middle


def ratio_of_means(pairs: Sequence[tuple[Floats, Floats]], *, seed: int = 0, draws: int = DRAWS) -> Estimate:
    """Two ways measured at the same places of several texts: the mean of one over that of the other, geometric mean
    over the texts, with the ends of its bootstrap interval (percentiles, `LEVEL`). Places are drawn anew within their
    text, for both ways alike: what makes a place easy for both is not in the interval.
    """
    rng = np.random.default_rng(seed)
    ratio, logs = 0.0, np.zeros(draws)
    for ones, others in pairs:
        chosen = rng.integers(len(ones), size=(draws, len(ones)))
        ratio += math.log(ones.mean() / others.mean())
        logs += np.log(ones[chosen].mean(axis=1) / others[chosen].mean(axis=1))
    low, high = np.quantile(np.exp(logs / len(pairs)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(math.exp(ratio / len(pairs)), float(low), float(high))
