"""Virtual time: an answer's cycles, priced by a cost curve instead of a clock.

The unit is a plain pass at the context length where the cycle stood, so plain decoding of n tokens costs n and the
speed-up is tokens over cost. Noise of the machine is not in it, so single per cents show; whether the curve is true is
for the wall clock to say. The target reads the prompt before the clock starts. What the draft model reads within the
answer is priced, the prompt too, which in `auto` it reads when it is first asked. A plain pass made only to know the
plain speed costs what it is: one pass, one token.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from localspec.bench.curves import Pricing
from localspec.bench.paired import Run
from localspec.engine.costs import IN_STEP, READING
from localspec.engine.events import Cycle


@dataclass(frozen=True, slots=True)
class Price:
    """Tokens decoded (the first, from prefill, is none of them) and what their cycles cost, in plain passes."""

    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: "Price") -> "Price":
        return Price(self.tokens + other.tokens, self.cost + other.cost)

    @property
    def speedup(self) -> float | None:
        return self.tokens / self.cost if self.cost else None


def price(cycles: Iterable[Cycle], prompt_tokens: int, pricing: Pricing) -> Price:
    """One answer. Lookup drafts for nothing; the draft model pays for every pass it makes, also where it then draws
    nothing, and for reading what it has not read yet."""
    tokens, cost = 0, 0.0
    for cycle in cycles:
        context = prompt_tokens + tokens
        cost += pricing.relative(1 + cycle.proposed, context)
        cost += (cycle.passes + READING * max(0, cycle.read - IN_STEP)) * pricing.draft_token(context)
        tokens += cycle.emitted
    return Price(tokens, cost)


def pooled(runs: Iterable[Run], pricing: Pricing) -> Price:
    """Several answers as one."""
    return sum((price(run.cycles, run.stats.prompt_tokens, pricing) for run in runs), Price())
