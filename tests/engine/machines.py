"""A machine that exists only as numbers: its true cost curve, its noise, its stalls and its momentary speed."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from localspec.engine.costs import Costs

Shape = Callable[[int, int], float]


def steps(width: int, context: int) -> float:
    """Four rows at a time, as the kernels of an AVX-512 build take them; attention grows with context and width."""
    return (
        1.0 + 0.9 * ((width + 3) // 4 - 1) + (0.5 if width % 4 in (2, 3) else 0.1 * (width > 1)) + grows(width, context)
    )


def flat(width: int, context: int) -> float:
    return 1.0 + 0.01 * (width - 1) + grows(1, context)


def linear(width: int, context: int) -> float:
    return float(width) + grows(width, context)


def grows(width: int, context: int) -> float:
    return 3e-4 * context * (0.4 + 0.6 * width)


@dataclass
class Machine:
    """Passes on it take `ms` milliseconds times the shape, `slow` times, with log-normal `noise`; one in `stalls` (0:
    none) takes 6 times as long."""

    shape: Shape
    ms: float = 50.0
    slow: float = 1.0
    noise: float = 0.04
    stalls: int = 0
    draft: float = 0.4
    now: float = 100.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def seconds(self, width: int, context: int) -> float:
        stalled = 6.0 if self.stalls and self.rng.integers(self.stalls) == 0 else 1.0
        return (
            self.ms
            / 1000
            * self.slow
            * self.shape(width, context)
            * stalled
            * float(np.exp(self.rng.normal() * self.noise))
        )

    def run(self, costs: Costs, *widths: int, context: int = 100, times: int = 1) -> None:
        for _ in range(times):
            for width in widths:
                taken = self.seconds(width, context)
                self.now += taken
                costs.learn_pass(context, width, taken, self.now)

    def true(self, width: int, context: int = 100) -> float:
        """The true cost relative to a plain pass."""
        return self.shape(width, context) / self.shape(1, context)
