"""What passes cost before anything was measured: the known shape of each kind of build, with its steps.

A pass of n tokens at c tokens of context is taken as base(n) + slope(n) * c, in units of a plain pass (one token) at an
empty context. Between the points of a table it is linear; measurements only ever scale it (`cost.py`).
"""

from bisect import bisect_left
from dataclasses import dataclass

Points = tuple[tuple[int, float], ...]

AMX: Points = (
    (1, 1.0), (2, 1.6), (3, 1.7), (4, 1.8), (5, 1.85), (6, 1.9), (8, 2.1), (12, 2.35), (16, 2.7), (24, 3.7),
    (32, 4.6), (65, 8.8),
)  # fmt: skip
"""A processor with matrix tiles: wide passes are cheap."""

AVX512: Points = (
    (1, 1.0), (2, 1.5), (3, 1.9), (4, 1.75), (5, 2.2), (6, 2.5), (8, 3.4), (12, 3.8), (16, 4.0), (24, 5.7),
    (32, 6.4), (65, 13.0),
)  # fmt: skip
"""Kernels that take four rows at a time: 4 cost less than 3, and 16 hardly more than 12. Also the guess for ARM."""

AVX2: Points = (
    (1, 1.0), (2, 1.5), (3, 2.4), (4, 2.0), (5, 2.4), (6, 3.0), (8, 4.1), (12, 5.2), (16, 5.3), (24, 8.3),
    (32, 9.0), (65, 18.0),
)  # fmt: skip
"""The portable build."""

NO_REPACK: Points = (
    (1, 1.0), (2, 1.5), (3, 1.85), (4, 2.2), (5, 2.5), (6, 4.2), (8, 5.1), (12, 4.3), (16, 4.5), (24, 7.0),
    (32, 7.7), (65, 15.5),
)  # fmt: skip
"""Without the repacked kernels (`EngineConfig.extra_bufts` off): 12 cost less than 8."""

GPU: Points = ((1, 1.0), (2, 1.05), (4, 1.15), (8, 1.35), (16, 1.7), (32, 2.2), (65, 3.2))
"""Reading the weights is what a pass costs, and that is shared: nearly flat. Not measured, so on the careful side."""


@dataclass(frozen=True, slots=True)
class Prior:
    """`points` at an empty context; each token of context adds `growth` to a plain pass, and `share` of that again for
    each further token of the pass."""

    points: Points = AVX512
    growth: float = 2e-4
    share: float = 0.75

    def cost(self, width: int, context: int) -> float:
        """A pass of `width` tokens at `context` tokens, in plain passes at an empty context."""
        return self._base(width) + self.growth * (1 + self.share * (width - 1)) * context

    def _base(self, width: int) -> float:
        widths = [w for w, _ in self.points]
        at = bisect_left(widths, width)
        if at == len(widths):
            return self.points[-1][1] * width / widths[-1]
        if at == 0 or widths[at] == width:
            return self.points[at][1]
        (low, below), (high, above) = self.points[at - 1], self.points[at]
        return below + (above - below) * (width - low) / (high - low)


def prior_for(library: str, *, flash: str, gpu: bool = False, extra_bufts: bool = True) -> Prior:
    """The prior of a build that tells `library` of itself (llama_print_system_info); `gpu`: layers run on one.

    The growth with context is that of a 1.5B model, 64 to 1,024 tokens, on a CPU: a plain pass gains 19 % with flash
    attention and 7 % without; 16 tokens gain 10 and 5 times as much.
    """
    if gpu:
        return Prior(GPU, growth=5e-5, share=0.1)
    if not extra_bufts:
        points = NO_REPACK
    elif "AMX_INT8 = 1" in library:
        points = AMX
    elif "AVX512 = 1" in library or "NEON = 1" in library:
        points = AVX512
    else:
        points = AVX2
    return Prior(points, growth=8e-5, share=0.5) if flash == "off" else Prior(points)
