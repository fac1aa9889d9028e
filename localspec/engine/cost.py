"""The cost curve of a model here: what a pass of n tokens at c tokens of context takes, from what passes took.

A curve keeps samples by width and by band of context. Where a width was measured its cost is the measured one: nothing
is smoothed across widths, so steps stay. Elsewhere the prior's shape holds, scaled by the measured neighbours on both
sides. Along the context a width is linear: through its measured bands, and with the prior's slope when it has but one.
"""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from math import exp, inf, log, log2
from statistics import median

from localspec.engine.priors import Prior

WINDOW = 11
"""Samples kept of a width in a band: their median follows in a few passes, and five stalls do not move it."""

ENOUGH = 3
"""Samples that make a width measured in a band: with fewer, one stall would decide."""

KEPT = 3
"""Samples that a band known from disk starts with: enough to be believed, few enough to be outvoted in an answer."""

STEP = 0.22
"""Neighbours whose logarithms differ from the prior's shape by more than this disagree: 25 %."""

APART = 256
"""Tokens of context between two bands' centres from which on the slope is taken from them: nearer, it is noise."""

DOUBT = log(2)
"""How far a sample of a width that is not measured yet may lead away from what its neighbours say: a factor of 2."""

BANDS = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Bands of context end at these lengths: within one, attention's growth is small against a pass."""


def band(context: int) -> int:
    """The number of the band that `context` tokens lie in."""
    return sum(context >= end for end in BANDS)


class Curve:
    """The cost of passes, in the unit of what it learns (milliseconds, or plain passes)."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self._cells: dict[int, dict[int, deque[tuple[int, float]]]] = {}
        """By width, then by band: the controller asks for one width at a time, at every cycle."""
        self._points: dict[int, list[tuple[int, float]]] = {}
        """The measured bands of a width, worked out when first asked for: the controller asks at every cycle."""

    def learn(self, width: int, context: int, cost: float) -> None:
        """A pass of `width` tokens at `context` tokens cost `cost` (> 0)."""
        cell = self._cells.setdefault(width, {}).setdefault(band(context), deque(maxlen=WINDOW))
        cell.append((context, log(cost / self.prior.cost(width, context))))
        self._points.pop(width, None)

    def restore(self, width: int, context: int, cost: float, samples: int) -> None:
        """Replace a band by what `samples` gave elsewhere or earlier: as many samples, but no more than can be outvoted
        soon. A band that is measured does not give way to too few."""
        if samples >= ENOUGH or not self.solid(width, context):
            self._cells.get(width, {}).pop(band(context), None)
            for _ in range(min(samples, KEPT)):
                self.learn(width, context, cost)

    def count(self, width: int, context: int | None = None) -> int:
        """Samples of a width, in the band of `context` or in all."""
        bands = self._cells.get(width, {})
        return sum(map(len, bands.values())) if context is None else len(bands.get(band(context), ()))

    def solid(self, width: int, context: int) -> bool:
        """The width was measured in the band of `context`."""
        return self.count(width, context) >= ENOUGH

    def spread(self, width: int, context: int) -> float:
        """How far the samples in the band of `context` lie from their median, in the middle: 0.1 is 10 %."""
        deviations = [deviation for _, deviation in self._cells.get(width, {}).get(band(context), ())]
        if not deviations:
            return inf
        middle = median(deviations)
        return median(abs(one - middle) for one in deviations)

    def widths(self) -> list[int]:
        """The widths that were measured in any band, ascending."""
        return sorted(w for w, bands in self._cells.items() if any(len(cell) >= ENOUGH for cell in bands.values()))

    def measured(self, width: int, context: int) -> float | None:
        """The cost at `context` from the width's own bands; None before one of them has enough samples."""
        points = self._points.get(width)
        if points is None:
            points = [self._point(width, cell) for _, cell in self._bands(width) if len(cell) >= ENOUGH]
            self._points[width] = points
        return self._along(width, context, points) if points else None

    def weak(self, width: int) -> list[float]:
        """The logarithms, against the prior, of the samples of a width that no band has enough of."""
        return [deviation for _, cell in self._bands(width) for _, deviation in cell]

    def samples(self) -> Iterator[tuple[int, int, float, int]]:
        """What is worth keeping: width, context, cost there (the band's median), number of samples."""
        for width in sorted(self._cells):
            for _, cell in self._bands(width):
                yield (width, *self._point(width, cell), len(cell))

    def _bands(self, width: int) -> list[tuple[int, deque[tuple[int, float]]]]:
        return sorted(self._cells.get(width, {}).items())

    def _point(self, width: int, cell: deque[tuple[int, float]]) -> tuple[int, float]:
        """The band's centre, and the cost there."""
        centre = round(median(context for context, _ in cell))
        return centre, exp(median(deviation for _, deviation in cell)) * self.prior.cost(width, centre)

    def _along(self, width: int, context: int, points: list[tuple[int, float]]) -> float:
        """Linear through `points` (context, cost), ascending; beyond their ends with the slope of the last two that
        are far enough apart, else scaled by the prior. Never falling beyond the end: attention does not get cheaper."""
        for (low, below), (high, above) in pairwise(points):
            if low <= context <= high and high > low:
                return below + (above - below) * (context - low) / (high - low)
        inner = points[0] if context < points[0][0] else points[-1]
        other = points[-1] if inner is points[0] else points[0]
        if abs(inner[0] - other[0]) >= APART:
            slope = max(0.0, (inner[1] - other[1]) / (inner[0] - other[0]))
            # Towards an empty context the line may not go below half of what was seen.
            return max(inner[1] + slope * (context - inner[0]), inner[1] / 2)
        return inner[1] * self.prior.cost(width, context) / self.prior.cost(width, inner[0])


def between(width: int, known: dict[int, float]) -> float:
    """The logarithm by which `width` is taken to deviate from the prior, from those of the measured widths (`known`, 1
    among them).

    Neighbours that agree are interpolated. Where two disagree there is a step that the prior does not have, at a place
    nobody measured: the dearer one holds for all between them, so that no choice falls on a guess.
    """
    below = max((w for w in known if w < width), default=None)
    above = min((w for w in known if w > width), default=None)
    if below is None or above is None:
        return known[below] if below is not None else known[above] if above is not None else 0.0
    low, high = known[below], known[above]
    if below > 1 and abs(low - high) > STEP:
        return max(low, high)
    share = log2(width / below) / log2(above / below)
    return low + (high - low) * share


def doubted(guess: float, weak: list[float]) -> float:
    """A logarithm from too few samples, each held within `DOUBT` of the neighbours' `guess`, which counts as one."""
    return median([guess, *(min(max(one, guess - DOUBT), guess + DOUBT) for one in weak)])
