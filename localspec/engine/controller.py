"""Which drafter, and how many tokens, this cycle. Pure: no clock, no model; what it knows is told to it.

The gain of drafting K tokens is expected tokens over cost, against one token for one plain pass. When the i-th draft
token stands with probability a_i once those before it stood, the expected tokens are 1 + a_1 + a_1 a_2 + ... (with all
a_i the same, (1 - a^(K+1)) / (1 - a): Leviathan et al. 2023, eq. 1). For lookup a_i depends on how much of the text
before the token is copied: the match before the draft and the draft tokens themselves, so it grows along the draft.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from localspec.engine.cost import PassCost
from localspec.engine.drafters.base import Ground
from localspec.engine.events import DrafterName

PAYS = 1.05
"""Drafting must promise this much over plain decoding: estimates are noisy and a plain pass is certain."""

MEMORY = 24.0
"""Judged tokens an acceptance rate remembers: quick to follow a change of text, slow to be fooled by one cycle."""

PRIOR_WEIGHT = 4.0
"""Judged tokens that a prior rate is worth."""

DRAFT_PRIOR = 0.6
"""Acceptance of a draft model before anything is known: where most published pairs start."""

LOOKUP_PRIORS = ((2, 0.36), (3, 0.45), (4, 0.58), (6, 0.72), (8, 0.84), (12, 0.91), (16, 0.93), (24, 0.96))
"""Acceptance of a copied token after so many copied ones, up to each length; beyond, `LONG_COPY`."""

LONG_COPY = 0.98

RESUMED_PRIORS: dict[Ground, tuple[float, ...]] = {
    "resumed": (0.65, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.94),
    "replaced": (0.25, 0.65, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94),
}
"""Acceptance by place in a draft that resumes a copy behind an edit; further on it is the last."""

PROBE_AFTER = 64
"""Tokens of an answer before a draft model that seems not to pay is tried again; doubled at each failure."""

PROBE_SHARE = 0.05
"""What bringing a drafter in step for such a try may cost of the answer so far: most tries fail."""

FORECAST = 64
"""Tokens an answer is expected to go on for at least; later, as many as it has: how long is not known."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a drafter could do now: `length` tokens at most, each costing `token_cost` plain passes to draft.

    `start_cost` is what it costs to bring the drafter in step first, in plain passes: once, and then never again.
    `evidence` is lookup's match length in tokens, which acceptance depends on; 0 for a drafter without one. `ground` is
    what lookup's guess rests on.
    """

    drafter: DrafterName
    length: int
    token_cost: float = 0.0
    start_cost: float = 0.0
    evidence: int = 0
    ground: Ground = "match"


@dataclass(frozen=True, slots=True)
class Choice:
    """Use offer number `offer` with `length` tokens; `gain` is the expected speed relative to plain decoding."""

    offer: int
    length: int
    gain: float


@dataclass(slots=True)
class _Rate:
    """An acceptance rate with a fading memory, begun from a prior worth a few tokens."""

    accepted: float
    judged: float

    @property
    def value(self) -> float:
        return self.accepted / self.judged

    def learn(self, stood: bool) -> None:
        keep = 1.0 - 1.0 / MEMORY
        self.accepted = self.accepted * keep + stood
        self.judged = self.judged * keep + 1.0


def _bucket(evidence: int) -> int:
    """Which of the rates holds after `evidence` copied tokens; -1 for a drafter that copies nothing."""
    if evidence == 0:
        return -1
    return next((i for i, (longest, _) in enumerate(LOOKUP_PRIORS) if evidence <= longest), len(LOOKUP_PRIORS))


@dataclass(slots=True)
class Controller:
    """Chooses by the estimates it has; learns from every verdict, and from guesses nobody asked the target about."""

    cost: PassCost
    _rates: dict[tuple[DrafterName, Ground, int], _Rate] = field(default_factory=dict)
    _emitted: int = 0
    _since_probe: int = 0
    _probe_after: int = PROBE_AFTER

    def choose(self, offers: Sequence[Offer], limit: int, *, insist: bool = False) -> Choice | None:
        """The offer and length that promise most, or None when plain decoding does. At most `limit` tokens.

        `insist` leaves plain decoding out: a person asked for this drafter, whatever it costs.
        """
        best: Choice | None = None
        for number, offer in enumerate(offers):
            choice = self._best_length(number, offer, limit)
            if choice is None or not (insist or self._pays_back(offer, choice.gain)):
                continue
            if best is None or choice.gain > best.gain:
                best = choice
        if best is not None and (insist or best.gain >= PAYS):
            return best
        return self._probe(offers, limit)

    def learn(self, offer: Offer, judged: int, accepted: int) -> None:
        """Of `offer`'s tokens `judged` had a verdict and `accepted` stood."""
        for place in range(judged):
            self._rate(offer, place).learn(place < accepted)

    def emitted(self, tokens: int) -> None:
        """So many tokens left the cycle, whoever proposed them."""
        self._emitted += tokens
        self._since_probe += tokens

    def _pays_back(self, offer: Offer, gain: float) -> bool:
        """Whether the rest of the answer is expected to return what the offer costs to start."""
        saved = max(FORECAST, self._emitted) * (1.0 - 1.0 / gain)
        return offer.start_cost == 0.0 or offer.start_cost <= saved

    def _rate(self, offer: Offer, place: int) -> _Rate:
        """The acceptance rate of the token at `place` of the draft, all before it having stood."""
        if offer.ground != "match":
            priors = RESUMED_PRIORS[offer.ground]
            bucket = min(place, len(priors) - 1)
            prior = priors[bucket]
        else:
            bucket = _bucket(offer.evidence + place if offer.evidence else 0)
            prior = DRAFT_PRIOR if bucket < 0 else [*(rate for _, rate in LOOKUP_PRIORS), LONG_COPY][bucket]
        key = (offer.drafter, offer.ground, bucket)
        if key not in self._rates:
            self._rates[key] = _Rate(prior * PRIOR_WEIGHT, PRIOR_WEIGHT)
        return self._rates[key]

    def _best_length(self, number: int, offer: Offer, limit: int) -> Choice | None:
        best: Choice | None = None
        tokens = standing = 1.0
        for length in range(1, min(limit, offer.length) + 1):
            standing *= self._rate(offer, length - 1).value
            tokens += standing
            gain = tokens / (self.cost.of(1 + length) + length * offer.token_cost)
            if best is None or gain > best.gain:
                best = Choice(number, length, gain)
        return best

    def _probe(self, offers: Sequence[Offer], limit: int) -> Choice | None:
        """Rarely ask a drafter that cannot be judged for free, if its best case pays; less often at each failure."""
        if self._since_probe < self._probe_after or limit < 3:
            return None
        for number, offer in enumerate(offers):
            if offer.token_cost == 0.0 or offer.start_cost > PROBE_SHARE * self._emitted:
                continue
            if 4.0 / (self.cost.of(4) + 3 * offer.token_cost) >= PAYS:
                self._since_probe = 0
                self._probe_after *= 2
                return Choice(number, 3, 1.0)
        return None
