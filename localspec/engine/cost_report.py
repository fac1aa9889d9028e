"""The cost curve as it leaves the engine: for people, for plots, and for pricing cycles in virtual time."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.engine.requests import FlashAttention


@dataclass(frozen=True, slots=True)
class FlashTime:
    """A pass of `width` tokens at `context` tokens with flash attention on and off, in milliseconds."""

    width: int
    context: int
    on_ms: float
    off_ms: float


@dataclass(frozen=True, slots=True)
class CostReport:
    """What the engine knows of its costs now.

    `table[i][j]` is a target pass of `widths[j]` tokens at `contexts[i]` tokens relative to a plain one there, and
    `plain_ms[i]` the plain pass in milliseconds at the machine's usual speed (None: never seen). `samples[j]` says how
    many passes are behind a width, at any context: where there is none the number is a guess from its neighbours.
    `measured` are the context lengths where passes were seen. `draft_token` is a drawn draft token relative to a plain
    pass (None: no draft model), `draft_samples` what is behind it. `momentary` is how many times slower than usual the
    machine is right now. `flash` is the kind in force, `flash_times` what both kinds took, `faster` the one that is
    faster here (None: not compared). `notes` are sentences for the person.
    """

    widths: tuple[int, ...]
    contexts: tuple[int, ...]
    table: tuple[tuple[float, ...], ...]
    plain_ms: tuple[float | None, ...]
    samples: tuple[int, ...]
    measured: tuple[int, ...]
    draft_token: float | None
    draft_samples: int
    momentary: float
    flash: str
    flash_times: tuple[FlashTime, ...] = ()
    faster: FlashAttention | None = None
    notes: tuple[str, ...] = ()

    def relative(self, width: int, context: int) -> float:
        """A target pass of `width` tokens at `context` tokens relative to a plain pass there: linear between the
        report's contexts, the nearest one's outside; never mixed across widths."""
        j = self.widths.index(max(1, min(width, self.widths[-1])))
        beyond = max(1.0, width / self.widths[-1])
        return self._along([row[j] for row in self.table], context) * beyond

    def ms(self, width: int, context: int) -> float | None:
        """Milliseconds of such a pass at the usual speed; None when no plain pass was ever seen."""
        plain = [ms for ms in self.plain_ms if ms is not None]
        if len(plain) < len(self.contexts):
            return None
        return self._along(plain, context) * self.relative(width, context)

    def _along(self, values: Sequence[float], context: int) -> float:
        """Between the values at the report's contexts."""
        at = bisect_left(self.contexts, context)
        if at == 0 or at == len(self.contexts):
            return values[min(at, len(self.contexts) - 1)]
        low, high = self.contexts[at - 1], self.contexts[at]
        return values[at - 1] + (values[at] - values[at - 1]) * (context - low) / (high - low)
