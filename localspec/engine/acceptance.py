"""How likely a draft token is to stand, from what is known before the target sees it.

A prior by what speaks for the token, moved by one number that follows the text at hand: an online logistic regression
with an intercept only. All verdicts of a kind move it together, so that it follows a change of text within a few
cycles, and the step is small, so that one cycle does not fool it.
"""

from dataclasses import dataclass, field
from math import exp, log

from localspec.engine.drafters.base import Place

COPIED = (
    (1, 0.27), (2, 0.47), (3, 0.54), (4, 0.62), (6, 0.78), (8, 0.87), (12, 0.93), (16, 0.95), (24, 0.96), (48, 0.98),
)  # fmt: skip
"""Share of copied tokens that stood, by how many tokens before them were copied, on recorded answers of an instruct
model in seven kinds of work; the latest of several places, or the only one."""

LONG_COPY = 0.99

AGREEING = 1.0
"""Added to the logit where all earlier places went on alike: two witnesses instead of one."""

SPLIT = 0.9
"""Taken away where they did not, with the share of this continuation at a half."""

SHORT = 6
"""Copies up to here are turns of phrase, whose luck says little about longer ones; the two are followed apart."""

RESUMED = (0.35, 0.4, 0.75, 0.85, 0.85, 0.9)
"""Behind an edit, by how many tokens agree already; then as any copy, at least the last."""

REPLACED = 0.12
"""The token behind one that was just replaced: most edits are longer than one token."""

STEP = 0.3
"""How far one surprising verdict moves the logit: ten of them turn an even chance into 19 in 20."""

BOUND = 3.0
"""The text at hand moves the logit no further than this."""

CARRIED = 0.5
"""Share of what one answer taught that holds for the next: texts of one chat are alike, but not the same."""

DRAFT_PRIOR = 0.6
"""Acceptance of a draft model before anything is known: where most published pairs start."""


def logit(p: float) -> float:
    """log(p / (1 - p)), with p kept off 0 and 1."""
    p = min(max(p, 1e-4), 1.0 - 1e-4)
    return log(p / (1.0 - p))


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-x))


@dataclass(slots=True)
class _Leaning:
    """How much the text at hand differs from the prior, in logits."""

    value: float = 0.0

    def learn(self, expected: float, stood: bool) -> None:
        self.value = min(max(self.value + STEP * (stood - expected), -BOUND), BOUND)


def _copied_prior(copied: int) -> float:
    return next((rate for longest, rate in COPIED if copied <= longest), LONG_COPY)


def prior(place: Place) -> float:
    """The probability that a copied token stands, whatever the text."""
    if place.ground == "replaced" and place.copied == 0:
        return REPLACED
    if place.ground == "renamed":
        # Laplace's rule: one more place of each kind than was seen.
        return (place.same + 1.0) / (place.seen + 2.0)
    if place.ground in ("resumed", "replaced"):
        known = RESUMED[min(place.copied, len(RESUMED) - 1)]
        return max(known, _copied_prior(place.copied)) if place.copied >= len(RESUMED) else known
    x = logit(_copied_prior(place.copied))
    if place.seen > 1:
        share = min(place.same / place.seen, 1.0)
        x += AGREEING if share == 1.0 else -SPLIT - logit(max(share, 0.05)) * -0.5
    return sigmoid(x)


@dataclass(slots=True)
class LookupAcceptance:
    """What becomes of copied tokens, in this conversation."""

    _leanings: dict[bool, _Leaning] = field(default_factory=lambda: {False: _Leaning(), True: _Leaning()})

    def begin(self) -> None:
        """A new answer."""
        for leaning in self._leanings.values():
            leaning.value *= CARRIED

    def rate(self, place: Place) -> float:
        """The probability that the token stands, those before it having stood."""
        return sigmoid(logit(prior(place)) + self._leaning(place).value)

    def learn(self, place: Place, stood: bool) -> None:
        self._leaning(place).learn(self.rate(place), stood)

    def _leaning(self, place: Place) -> _Leaning:
        return self._leanings[place.copied > SHORT]


DRAFT_MEMORY = 24.0
"""Judged tokens the draft model's rate remembers: quick to follow a change of text, slow to be fooled by one cycle."""

DRAFT_WEIGHT = 4.0
"""Judged tokens that what is thought of a draft model beforehand is worth."""

OWN_WEIGHT, OWN_SHIFT = 0.75, 0.55
"""logit of acceptance = OWN_SHIFT + OWN_WEIGHT * logit of the draft's own top probability, on recorded answers."""

CONFIDENT_WEIGHT, CONFIDENT_SHIFT = 0.8, 0.2
"""logit of a draft model's acceptance = CONFIDENT_SHIFT + CONFIDENT_WEIGHT * the target's confidence, likewise."""

CONFIDENCE_MEMORY = 24.0
"""Tokens the target's confidence is averaged over."""

ENOUGH_CONFIDENCE = 8
"""Tokens of it before it says anything of the text."""


@dataclass(slots=True)
class DraftAcceptance:
    """What becomes of a draft model's tokens. Before it is asked, the target's own confidence tells: where the target
    is certain, a smaller model of its family mostly thinks the same."""

    _accepted: float = DRAFT_PRIOR * DRAFT_WEIGHT
    _judged: float = DRAFT_WEIGHT
    _leaning: _Leaning = field(default_factory=_Leaning)
    _confidence: float = 0.0
    _heard: float = 0.0

    def begin(self) -> None:
        """A new answer: what the last ones taught is worth a few tokens."""
        self._confidence = self._heard = 0.0
        self._leaning.value *= CARRIED
        if self._judged > DRAFT_WEIGHT:
            self._accepted *= DRAFT_WEIGHT / self._judged
            self._judged = DRAFT_WEIGHT

    @property
    def rate(self) -> float:
        """The probability that a token stands, not having looked at the draft's distribution."""
        if self._heard < ENOUGH_CONFIDENCE:
            return self._accepted / self._judged
        told = sigmoid(CONFIDENT_SHIFT + CONFIDENT_WEIGHT * self._confidence / self._heard)
        return (self._accepted + DRAFT_WEIGHT * told) / (self._judged + DRAFT_WEIGHT)

    def of(self, top: float) -> float:
        """The same, with the draft's own largest probability there."""
        return sigmoid(OWN_SHIFT + OWN_WEIGHT * logit(top) + self._leaning.value)

    def heard(self, top: float) -> None:
        """The target's largest probability at a token it chose."""
        keep = 1.0 - 1.0 / CONFIDENCE_MEMORY
        self._confidence = self._confidence * keep + logit(top)
        self._heard = self._heard * keep + 1.0

    def learn(self, top: float, stood: bool) -> None:
        keep = 1.0 - 1.0 / DRAFT_MEMORY
        self._accepted = self._accepted * keep + stood
        self._judged = self._judged * keep + 1.0
        self._leaning.learn(self.of(top), stood)
