"""What drafting costs here, as the controller asks for it: everything relative to a plain pass of the target."""

from collections import deque
from statistics import median

from localspec.engine.cost import PassCost, PlainSpeed
from localspec.engine.cost_report import CostReport as CostReport

READING = 0.2
"""A token read in a wide pass relative to one drawn: 0.14 to 0.28 on every curve measured."""

IN_STEP = 2
"""Tokens a draft model reads before it draws, when it drafted in the cycle before and all of its draft stood."""


class Costs:
    """What this machine was seen to cost with these models: kept over the answers of an engine."""

    def __init__(self, draft_prior: float) -> None:
        self.plain = PlainSpeed()
        self.passes = PassCost()
        self._draft_prior = draft_prior
        self._draft: deque[float] = deque(maxlen=9)

    def relative(self, width: int, context: int) -> float:
        """A target pass of `width` tokens at `context` tokens relative to a plain pass there; at least 1."""
        return self.passes.of(width)

    def draft_token(self, context: int) -> float:
        """A drawn draft token relative to a plain pass at `context` tokens: measured, before that by the sizes."""
        return median(self._draft) if self._draft else self._draft_prior

    def catching_up(self, behind: int, context: int) -> float:
        """What it costs a draft model that is `behind` tokens behind to be in step again, in plain passes."""
        return max(0, behind - IN_STEP) * READING * self.draft_token(context)

    def plain_ms(self, context: int) -> float | None:
        """Milliseconds of a plain pass at `context` tokens now; None when nothing is known of it."""
        return self.plain.ms(context)

    def plain_wanted(self, context: int, now: float) -> bool:
        """A plain pass now would be worth its time, for the baseline."""
        return self.plain.wanted(context, now)

    def baseline_ms(self, context: int, since_s: float) -> float | None:
        """A plain pass during an answer that began at `since_s` and is `context` tokens long at its middle."""
        return self.plain.baseline_ms(context, since_s)

    def learn_pass(self, context: int, width: int, seconds: float, now: float) -> None:
        """A target pass of `width` tokens at `context` tokens took `seconds`."""
        if width == 1:
            self.plain.learn(context, seconds * 1000, now)
        elif plain := self.plain.ms(context):
            self.passes.learn(width, seconds * 1000 / plain)

    def learn_draft(self, context: int, behind: int, tokens: int, seconds: float) -> None:
        """Reading `behind` tokens and drawing `tokens` took `seconds`: what reading costs is no price of a token."""
        if tokens and behind <= IN_STEP and (plain := self.plain.ms(context)):
            self._draft.append(seconds * 1000 / tokens / plain)
