"""The three verification rules beside each other: from what was found at the places of the texts to figures.

Accepted tokens are expectations in closed form, given the drafts that were drawn; tokens per cycle are one more, the
bonus or replacement. A speed-up in virtual time is tokens over the cost of passes and drafting, in plain passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from localspec.bench import stats
from localspec.bench.curves import Pricing
from localspec.bench.paired import Measured
from localspec.bench.stats import Estimate
from localspec.engine.requests import Verify
from localspec.engine.rule_report import Place, RowCost, RuleRates

RULES: tuple[Verify, ...] = ("rejection", "block", "coupled")
ALL = "all"
"""The name of what goes over all texts."""


class Cell(NamedTuple):
    """What was found on one text at one temperature."""

    text: str
    temperature: float
    rates: RuleRates


@dataclass(frozen=True, slots=True)
class RulePoint:
    """One rule with drafts of `length` tokens: accepted of them on average, and the speed-up in virtual time."""

    rule: str
    length: int
    accepted: float
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class RuleCell:
    """A text at a temperature, or all texts there: means of accepted tokens, geometric means of speed-ups.

    `places`: cycles begun there. Of one drafted token: `minima` is the sum of min(target, draft), what rejection and
    block keep; `agreement` how often both draw the same with the same noise, what coupled keeps; `argmax` the target's
    probability of the draft's likeliest token, what a draft that is not sampled would keep.
    """

    text: str
    temperature: float
    places: int
    minima: float
    agreement: float
    argmax: float
    points: tuple[RulePoint, ...]

    def at(self, rule: str, length: int) -> RulePoint | None:
        return next((point for point in self.points if (point.rule, point.length) == (rule, length)), None)

    def best(self, rule: str) -> RulePoint | None:
        """The length with the greatest speed-up in virtual time; None when it is not known."""
        known = [point for point in self.points if point.rule == rule and point.speedup is not None]
        return max(known, key=lambda point: point.speedup or 0.0) if known else None


@dataclass(frozen=True, slots=True)
class RuleGain:
    """Tokens per cycle under a rule over those under rejection, at the same places: geometric mean over the texts, and
    its 95 % bootstrap interval over the places. `temperature` None: over all."""

    rule: str
    temperature: float | None
    length: int
    ratio: Estimate


@dataclass(frozen=True, slots=True)
class RuleRun:
    """A rule in the engine's own answers, by the wall clock: geometric mean over the texts, against plain decoding at
    the same temperature."""

    rule: str
    temperature: float
    length: int
    answers: int
    wall: Estimate
    tokens_per_cycle: float | None


@dataclass(frozen=True, slots=True)
class Rules:
    """The whole comparison; not `complete`: it was stopped, and this is what it had. `priced_by`: the cost curve."""

    complete: bool
    top_k: int
    top_p: float
    min_p: float
    lengths: tuple[int, ...]
    cells: tuple[RuleCell, ...] = ()
    means: tuple[RuleCell, ...] = ()
    gains: tuple[RuleGain, ...] = ()
    runs: tuple[RuleRun, ...] = ()
    times: tuple[RowCost, ...] = ()
    priced_by: str | None = None


def cell(found: Cell, longest: int, pricing: Pricing | None) -> RuleCell:
    """The figures of one text, of drafts of 1 to `longest` tokens. A draft that ended by itself counts as it is."""
    places = found.rates.places
    points = [
        RulePoint(
            rule, length, fmean(_kept(place, rule, length) for place in places), _speedup(places, rule, length, pricing)
        )
        for rule in RULES
        for length in range(1, longest + 1)
    ]
    return RuleCell(
        found.text, found.temperature, len(places), fmean(place.minima for place in places),
        fmean(place.agreement for place in places), fmean(place.argmax for place in places), tuple(points),
    )  # fmt: skip


def mean(cells: Sequence[RuleCell]) -> RuleCell:
    """Over the texts of one temperature."""
    points = []
    for these in zip(*(one.points for one in cells), strict=True):
        speedups = [point.speedup for point in these if point.speedup is not None]
        average = stats.geometric_mean(speedups) if len(speedups) == len(these) else None
        points.append(RulePoint(these[0].rule, these[0].length, fmean(point.accepted for point in these), average))
    return RuleCell(
        ALL, cells[0].temperature, sum(one.places for one in cells), fmean(one.minima for one in cells),
        fmean(one.agreement for one in cells), fmean(one.argmax for one in cells), tuple(points),
    )  # fmt: skip


def gain(found: Sequence[Cell], rule: Verify, length: int, temperature: float | None) -> RuleGain:
    """Of `rule` over rejection; the temperature's cells, or all."""
    pairs = []
    for one in found:
        if temperature in (None, one.temperature):
            tokens = [[1 + _kept(place, name, length) for place in one.rates.places] for name in (rule, "rejection")]
            pairs.append((np.array(tokens[0]), np.array(tokens[1])))
    return RuleGain(rule, temperature, length, stats.ratio_of_means(pairs))


def runs(measured: Measured, length: int) -> tuple[RuleRun, ...]:
    """The engine's answers by temperature and rule, in the order they were first made."""
    compared = measured.comparisons()
    found = []
    for mode in {one.mode.name: one.mode for one in compared}.values():
        mine = [one for one in compared if one.mode == mode]
        prompts = [one.speedups for one in mine if one.speedups]
        low, high = stats.interval([prompts]) or (None, None)
        every = [each for one in mine for each in one.stats]
        cycles = sum(each.cycles for each in every)
        found.append(
            RuleRun(
                str(mode.verify),
                mode.sampling.temperature,
                length,
                len(every),
                Estimate(stats.speedup([prompts]), low, high),
                sum(max(0, each.tokens - 1) for each in every) / cycles if cycles else None,
            )
        )
    return tuple(found)


def _kept(place: Place, rule: Verify, length: int) -> float:
    return place.kept[rule][min(length, place.drawn) - 1]


def _speedup(places: Sequence[Place], rule: Verify, length: int, pricing: Pricing | None) -> float | None:
    if pricing is None:
        return None
    cost = 0.0
    for place in places:
        drawn = min(length, place.drawn)
        cost += pricing.relative(1 + drawn, place.context) + drawn * pricing.draft_token(place.context)
    return sum(1 + _kept(place, rule, length) for place in places) / cost
