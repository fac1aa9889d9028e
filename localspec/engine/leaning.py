"""How far the text at hand is from what is usual: one number, in logits, that is added to a prior.

An intercept and nothing else: all verdicts of a kind move it together, so that it follows a change of text within a few
cycles, and one cycle does not fool it.
"""

from dataclasses import dataclass
from math import exp, log

STEP = 0.15
"""How far one surprising verdict moves the logit: twenty of them turn an even chance into 19 in 20."""

BOUND = 3.0
"""The text at hand moves the logit no further than this."""

CARRIED = 0.5
"""Share of what one answer taught that holds for the next: texts of one chat are alike, but not the same."""


def logit(p: float) -> float:
    """log(p / (1 - p)), with p kept off 0 and 1."""
    p = min(max(p, 1e-4), 1.0 - 1e-4)
    return log(p / (1.0 - p))


def sigmoid(x: float) -> float:
    """The probability of a logit."""
    return 1.0 / (1.0 + exp(-x))


@dataclass(slots=True)
class Leaning:
    """How much the text at hand differs from the prior, in logits."""

    value: float = 0.0
    step: float = STEP

    def learn(self, expected: float, stood: bool) -> None:
        """A token stood, or did not, that was `expected` to with this probability: prior and text at hand."""
        self.value = min(max(self.value + self.step * (stood - expected), -BOUND), BOUND)


@dataclass(slots=True)
class Luck:
    """The same by counts: how many tokens stood and failed, against how many were expected to. Of copies that fail once
    in a hundred tokens a step at a time learns that they fail, and never that they do not.

    `weight` is how many tokens the prior is worth, standing and failing ones each, and `memory` the share of the counts
    that the next verdict leaves. `start` is added before anything is known.
    """

    weight: float
    memory: float
    start: float = 0.0
    stood: float = 0.0
    failed: float = 0.0
    to_stand: float = 0.0
    to_fail: float = 0.0

    @property
    def value(self) -> float:
        """What the prior's logit is moved by."""
        w = self.weight
        moved = log((w + self.stood) * (w + self.to_fail) / ((w + self.to_stand) * (w + self.failed)))
        return self.start + min(max(moved, -BOUND), BOUND)

    def learn(self, expected: float, stood: bool) -> None:
        """A token stood, or did not, that was `expected` to with this probability by the prior and `start` alone."""
        keep = self.memory
        self.stood = self.stood * keep + stood
        self.failed = self.failed * keep + (not stood)
        self.to_stand = self.to_stand * keep + expected
        self.to_fail = self.to_fail * keep + 1.0 - expected
