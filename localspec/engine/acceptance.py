"""How likely a draft model's token is to stand, from what is known before the target sees it: the target's own
confidence, the draft's distribution, and what became of such tokens in the text at hand.
"""

from dataclasses import dataclass, field

from localspec.engine.leaning import CARRIED, Leaning, logit, sigmoid

DRAFT_PRIOR = 0.6
"""Acceptance of a draft model before anything is known: where most published pairs start."""


DRAFT_MEMORY = 24.0
"""Judged tokens the draft model's rate remembers: quick to follow a change of text, slow to be fooled by one cycle."""

DRAFT_WEIGHT = 20.0
"""Judged tokens that what is thought of a draft model beforehand is worth: answers scatter that much around it."""

PAIR_STEP = 0.05
"""As `STEP`, for what is kept of a pair over many answers."""

OWN_WEIGHT, OWN_SHIFT = 1.0, 0.3
"""logit of acceptance = OWN_SHIFT + OWN_WEIGHT * logit of the draft's own top probability, on recorded answers."""

CERTAIN = 4.0
"""The target's confidence in a token, in logits, counts up to here: beyond, certainty is certainty."""

CONFIDENT_WEIGHT, CONFIDENT_SHIFT = 0.9, -0.25
"""logit of a draft model's acceptance = CONFIDENT_SHIFT + CONFIDENT_WEIGHT * the target's confidence, likewise."""

CONFIDENCE_MEMORY = 24.0
"""Tokens the target's confidence is averaged over."""

LOOKING = 0.7
"""Share of the failures that is left when a draft model stops before the tokens it is unsure of."""

ENOUGH_CONFIDENCE = 12.0
"""Tokens of it, fading ones counted by what is left of them, before it says anything of the text: 17 tokens,
which many a short answer has not."""


@dataclass(slots=True)
class DraftAcceptance:
    """What becomes of a draft model's tokens. Before it is asked, the target's own confidence tells: where the target
    is certain, a smaller model of its family mostly thinks the same. How much so is learnt of the pair."""

    _accepted: float = 0.0
    _judged: float = 0.0
    _leaning: Leaning = field(default_factory=Leaning)
    _pair: Leaning = field(default_factory=lambda: Leaning(step=PAIR_STEP))
    _confidence: float = 0.0
    _heard: float = 0.0

    def begin(self) -> None:
        """A new answer: of the last ones the pair's own leaning is kept."""
        self._confidence = self._heard = self._accepted = self._judged = 0.0
        self._leaning.value *= CARRIED

    @property
    def informed(self) -> bool:
        """Enough of the text was heard."""
        return self._heard >= ENOUGH_CONFIDENCE

    @property
    def rate(self) -> float:
        """The probability that a token stands, not having looked at the draft's distribution."""
        return (self._accepted + DRAFT_WEIGHT * self._told) / (self._judged + DRAFT_WEIGHT)

    @property
    def looking(self) -> float:
        """The same for the tokens of a draft that ends where its model is unsure."""
        return 1.0 - (1.0 - self.rate) * LOOKING

    @property
    def _told(self) -> float:
        """What the target's confidence and the pair's earlier answers say of this one."""
        x = logit(DRAFT_PRIOR)
        if self.informed:
            x = CONFIDENT_SHIFT + CONFIDENT_WEIGHT * self._confidence / self._heard
        return sigmoid(x + self._pair.value)

    def of(self, top: float) -> float:
        """The same, with the draft's own largest probability there."""
        return sigmoid(OWN_SHIFT + OWN_WEIGHT * logit(top) + self._leaning.value)

    def heard(self, top: float) -> None:
        """The target's largest probability at a token it chose."""
        keep = 1.0 - 1.0 / CONFIDENCE_MEMORY
        self._confidence = self._confidence * keep + min(logit(top), CERTAIN)
        self._heard = self._heard * keep + 1.0

    def learn(self, top: float, stood: bool) -> None:
        """A token was judged that the draft gave this probability, its largest, before it was drawn."""
        self._pair.learn(self._told, stood)
        self._leaning.learn(self.of(top), stood)
        keep = 1.0 - 1.0 / DRAFT_MEMORY
        self._accepted = self._accepted * keep + stood
        self._judged = self._judged * keep + 1.0
