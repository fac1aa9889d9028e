"""What a target pass costs here: plain speed along the context, and a pass of n tokens relative to one.

Both are learnt from the passes an answer makes anyway. Everything is in milliseconds of this machine, now; only ratios
leave the module.
"""

from bisect import bisect_left
from collections import deque
from statistics import fmean, median

WINDOW = 9
"""Passes remembered a width: a stall cannot move their median, and it follows a machine that warms up."""

ENOUGH = 3
"""Plain passes near a context length before its speed counts as measured."""

STALE_S = 5.0
"""A plain pass older than this is measured again: heat, battery and neighbours change a laptop's speed."""

SHARE = 100
"""But never more than one plain pass in the time of so many: the baseline may cost 1 % of an answer."""

MANY = 8
"""From so many plain passes in one answer on, their mean is the baseline: it has the stalls in, as the answer has."""

PRIOR: tuple[tuple[int, float], ...] = (
    (1, 1.0), (2, 1.5), (3, 1.9), (4, 1.75), (6, 2.4), (8, 3.4), (12, 3.8), (16, 4.0), (24, 5.7), (32, 6.4), (65, 13.0),
)  # fmt: skip
"""Relative cost of a pass of n tokens before anything was measured: a CPU of middling vector width."""


class PlainSpeed:
    """Milliseconds of a plain pass (one token), by context length in tokens."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, float, float]] = deque(maxlen=512)

    def learn(self, context: int, ms: float, now_s: float) -> None:
        """A plain pass at `context` tokens took `ms`, seen at the clock's `now_s`."""
        self._samples.append((context, ms, now_s))

    def ms(self, context: int) -> float | None:
        """The median of the latest plain passes near `context`; None before there are enough of them."""
        near = self._near(context)[-WINDOW:]
        return median(ms for _, ms, _ in near) if len(near) >= ENOUGH else None

    def baseline_ms(self, context: int, since_s: float) -> float | None:
        """A plain pass during an answer that began at `since_s` and is `context` tokens long at its middle.

        From the answer's own plain passes when there are enough, else the latest known; None when there are none.
        """
        own = [ms for _, ms, seen_s in self._near(context) if seen_s >= since_s]
        if len(own) >= MANY:
            return fmean(own)
        return median(own) if len(own) >= ENOUGH else self.ms(context)

    def wanted(self, context: int, now_s: float) -> bool:
        """A plain pass now would be worth its time: too few near this length, or the latest is old."""
        near = self._near(context)
        return len(near) < ENOUGH or now_s - near[-1][2] > max(STALE_S, SHARE * near[-1][1] / 1000)

    def _near(self, context: int) -> list[tuple[int, float, float]]:
        # Attention makes a pass dearer as the context grows; within these bounds the difference is below the noise.
        low, high = context / 1.5 - 128, context * 1.5 + 128
        return [sample for sample in self._samples if low <= sample[0] <= high]


class PassCost:
    """The cost of a pass of n tokens relative to a plain one: measured where it was used, elsewhere the prior."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[float]] = {}

    def learn(self, width: int, relative: float) -> None:
        """A pass of `width` tokens took `relative` times as long as a plain one."""
        self._seen.setdefault(width, deque(maxlen=WINDOW)).append(relative)

    def of(self, width: int) -> float:
        """The expected relative cost, at least 1: a wider pass is never taken for a cheaper one."""
        if width <= 1:
            return 1.0
        if seen := self._seen.get(width):
            # The prior counts as one more pass, so that a single stalled one decides nothing.
            return max(1.0, median([*seen, prior_cost(width)] if len(seen) < ENOUGH else seen))
        return max(1.0, prior_cost(width) * self._correction(width))

    def _correction(self, width: int) -> float:
        """How the measured widths differ from the prior, taken from the nearest one."""
        measured = [w for w, seen in self._seen.items() if w > 1 and len(seen) >= ENOUGH]
        if not measured:
            return 1.0
        nearest = min(measured, key=lambda w: abs(w - width))
        return median(self._seen[nearest]) / prior_cost(nearest)


def prior_cost(width: int) -> float:
    """`PRIOR` between its points, linearly."""
    widths = [w for w, _ in PRIOR]
    at = bisect_left(widths, width)
    if at == len(PRIOR):
        return PRIOR[-1][1] * width / PRIOR[-1][0]
    if widths[at] == width or at == 0:
        return PRIOR[at][1]
    (low, below), (high, above) = PRIOR[at - 1], PRIOR[at]
    return below + (above - below) * (width - low) / (high - low)
