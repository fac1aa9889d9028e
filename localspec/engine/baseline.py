"""The plain speed that was seen in this session: what a speed-up is measured against."""

from collections import deque
from statistics import fmean, median

WINDOW = 9
"""Latest plain passes whose median counts: a stall cannot move it, and it follows a machine that warms up."""

ENOUGH = 3
"""Plain passes near a context length before its speed counts as measured."""

MANY = 8
"""From so many plain passes in one answer on, their mean is the baseline: it has the stalls in, as the answer has."""


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

    def own_ms(self, context: int, since_s: float) -> float | None:
        """A plain pass of an answer that began at `since_s` and is `context` tokens long at its middle.

        From the answer's own plain passes; None when there are too few.
        """
        own = [ms for _, ms, seen_s in self._near(context) if seen_s >= since_s]
        if len(own) >= MANY:
            return fmean(own)
        return median(own) if len(own) >= ENOUGH else None

    def _near(self, context: int) -> list[tuple[int, float, float]]:
        # Attention makes a pass dearer as the context grows; within these bounds the difference is below the noise.
        low, high = context / 1.5 - 128, context * 1.5 + 128
        return [sample for sample in self._samples if low <= sample[0] <= high]
