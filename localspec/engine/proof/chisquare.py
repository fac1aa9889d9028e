"""Chi-square: how likely so large a statistic is by chance, and how large a bias a test of so many draws would catch.

Written out because scipy is a large thing to install for two functions.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

EXPECTED = 5.0
"""Draws that a class must be expected to get (Cochran 1954); rarer outcomes are one class together."""

NOTHING = 1e-9
"""A share that is only the rounding of a sum."""

Outcome = TypeVar("Outcome", bound=Hashable)

_ENOUGH = 1e-15
_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Tested:
    """`p`: how often chance alone is at least so far from the law, in `draws` draws of `classes` classes. 0 where an
    outcome came that the law does not have."""

    p: float
    draws: int
    classes: int

    def smallest_bias(self, level: float, wanted: float) -> float | None:
        """See there; None where nothing could be told apart."""
        return smallest_bias(self.draws, self.classes - 1, level, wanted) if self.classes > 1 else None


def test(counts: Mapping[Outcome, int], shares: Mapping[Outcome, float]) -> Tested:
    """Pearson's chi-square of `counts` against a law, given as shares by outcome; what it lacks to 1 is all others."""
    draws = sum(counts.values())
    frequent = [outcome for outcome, share in shares.items() if share * draws >= EXPECTED]
    observed = [float(counts.get(outcome, 0)) for outcome in frequent]
    expected = [shares[outcome] * draws for outcome in frequent]
    rest, rest_share = draws - sum(observed), max(0.0, draws - sum(expected))
    if rest > 0 and rest_share <= NOTHING * draws:
        return Tested(0.0, draws, len(frequent))
    if rest_share >= EXPECTED:
        observed.append(rest)
        expected.append(rest_share)
    elif frequent:
        # Too few for a class of their own: they go with the rarest of the frequent.
        at = expected.index(min(expected))
        observed[at] += rest
        expected[at] += rest_share
    if len(expected) < 2:
        return Tested(1.0, draws, len(expected))
    return Tested(survival(statistic(observed, expected), len(expected) - 1), draws, len(expected))


def survival(statistic: float, freedom: int) -> float:
    """The probability that chi-square with `freedom` degrees of freedom is at least `statistic`."""
    return 1.0 if statistic <= 0 else _upper_gamma(freedom / 2, statistic / 2)


def statistic(observed: Sequence[float], expected: Sequence[float]) -> float:
    """Pearson's: the sum of (observed - expected)^2 / expected."""
    return math.fsum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))


def critical(level: float, freedom: int) -> float:
    """The statistic that chance reaches with probability `level`."""
    return _falling(lambda x: survival(x, freedom), level)


def power(noncentrality: float, freedom: int, level: float) -> float:
    """The probability that a test at `level` sees a bias that moves the statistic's mean by `noncentrality`.

    A noncentral chi-square is one with freedom + 2 J degrees of freedom, J Poisson with mean noncentrality / 2.
    """
    bound, half = critical(level, freedom), noncentrality / 2
    total, j = 0.0, 0
    weight = math.exp(-half)
    while j < _STEPS and (j < half or weight > _ENOUGH):
        total += weight * survival(bound, freedom + 2 * j)
        j += 1
        weight *= half / j
    return min(1.0, total)


def smallest_bias(draws: int, freedom: int, level: float, wanted: float) -> float:
    """The total variation d from which on *any* bias is seen with probability `wanted` in `draws` draws.

    A bias d moves the statistic by draws x sum(difference^2 / expected share), which is at least 4 draws d^2 (Cauchy
    and Schwarz), whatever the bias looks like: many smaller ones are seen too.
    """
    noncentrality = _falling(lambda x: 1.0 - power(x, freedom, level), 1.0 - wanted)
    return min(1.0, math.sqrt(noncentrality / (4 * draws)))


def _falling(function: Callable[[float], float], value: float) -> float:
    """Where a falling function of a number from 0 on comes down to `value`."""
    low, high = 0.0, 1.0
    while function(high) > value and high < 1e6:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > value else (low, middle)
    return high


def _upper_gamma(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(a, x): by its series below the bulk, else by its continued
    fraction (Abramowitz and Stegun 6.5.29, 6.5.31)."""
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1.0 / a
        n = a
        while term > total * _ENOUGH:
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1.0 - front * total)
    # Lentz's method.
    b = x + 1 - a
    c, d = 1e300, 1 / b
    h = d
    for i in range(1, _STEPS):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        h *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return front * h
