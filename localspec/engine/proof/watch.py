"""Looking into one answer while it is made: which drafts were drawn from what, and by which laws they were judged.

The loop and the drafter are left as they are; what they hand to each other is written down on the way.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.generate import Reply
from localspec.engine.strategy import Proposal


@dataclass(frozen=True, slots=True)
class Drafted:
    """One draft of the model drafter: after `history` it drew `drawn` and handed out `draft`; then its context held
    `held`."""

    history: list[int]
    drawn: list[int]
    draft: Draft
    held: list[int]


@dataclass(frozen=True, slots=True)
class Judged:
    """The target's law for place `place` of a cycle's draft, as the loop used it, and the logits it was made from."""

    place: int
    row: NDArray[np.float32]
    law: Distribution


@dataclass(slots=True)
class Cycles:
    """By cycle, the prompt's being the first: what was proposed, and the laws that were asked for."""

    proposals: list[Proposal | None] = field(default_factory=lambda: [None])
    laws: list[list[Judged]] = field(default_factory=lambda: [[]])

    def watch(self, reply: Reply) -> None:
        """Write down what this answer does."""
        strategy: Any = reply._strategy
        loop: Any = reply
        propose, law = reply._strategy.propose, reply._law

        def proposing(history: Sequence[int], limit: int, now: float) -> Proposal:
            proposal = propose(history, limit, now)
            self.proposals.append(proposal)
            self.laws.append([])
            return proposal

        def judging(row: NDArray[np.float32], history: Sequence[int], place: int = 0) -> Distribution:
            found = law(row, history, place)
            self.laws[-1].append(Judged(place, row.copy(), found))
            return found

        strategy.propose, loop._law = proposing, judging


@contextmanager
def drafting(drafter: ModelDrafter | None) -> Iterator[list[Drafted]]:
    """While inside, every draft of the model drafter is written down."""
    seen: list[Drafted] = []
    if drafter is None:
        yield seen
        return
    watched: Any = drafter
    drawn: list[int] = []
    make, draw = drafter.draft, drafter._draw

    def drawing(law: Distribution, position: int) -> int:
        token = draw(law, position)
        drawn.append(token)
        return token

    def making(history: Sequence[int], *rest: Any, **named: Any) -> Draft:
        drawn.clear()
        before = list(history)
        draft = make(history, *rest, **named)
        seen.append(Drafted(before, list(drawn), draft, list(drafter.context.tokens)))
        return draft

    watched.draft, watched._draw = making, drawing
    try:
        yield seen
    finally:
        del watched.draft, watched._draw
