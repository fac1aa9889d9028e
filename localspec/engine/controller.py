"""Which drafter, and how many tokens, this cycle. Pure: no clock, no model; what it knows is told to it.

The gain of drafting K tokens is expected tokens over cost, against one token for one plain pass. With acceptance rate a
the expected tokens are (1 - a^(K+1)) / (1 - a) (Leviathan et al. 2023, eq. 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from localspec.engine.cost import PassCost
from localspec.engine.events import DrafterName

PAYS = 1.03
"""Drafting must promise this much over plain decoding: estimates are noisy and a plain pass is certain."""

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 19, 23, 27, 31)
"""Draft lengths considered; passes of 4, 8, 12, 16 ... tokens are the cheap ones of most kernels."""

MEMORY = 24.0
"""Judged tokens an acceptance rate remembers: quick to follow a change of text, slow to be fooled by one cycle."""

PROBE_AFTER = 64
"""Tokens of an answer before a draft model that seems not to pay is tried again; doubled at each failure."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a drafter could do now: `length` tokens at most, each costing `token_cost` plain passes to draft.

    `evidence` is lookup's match length, which acceptance depends on; 0 for a drafter without one.
    """

    drafter: DrafterName
    length: int
    token_cost: float = 0.0
    evidence: int = 0


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
        return min(0.99, self.accepted / self.judged)

    def learn(self, judged: int, accepted: int) -> None:
        keep = max(0.0, 1.0 - judged / MEMORY)
        self.accepted = self.accepted * keep + accepted
        self.judged = self.judged * keep + judged


def expected_tokens(rate: float, length: int) -> float:
    """Tokens a cycle yields on average when each draft token stands with probability `rate` < 1."""
    return (1.0 - rate ** (length + 1)) / (1.0 - rate)


def _bucket(evidence: int) -> int:
    """Match lengths that behave alike: 0 for none, then 1-2, 3-4, 5-8, 9-16, longer."""
    return 0 if evidence == 0 else min(5, max(1, (evidence - 1).bit_length()))


@dataclass(slots=True)
class Controller:
    """Chooses by the estimates it has; learns from every verdict, and from guesses nobody asked the target about."""

    cost: PassCost
    _rates: dict[tuple[DrafterName, int], _Rate] = field(default_factory=dict)
    _since_probe: int = 0
    _probe_after: int = PROBE_AFTER

    def choose(self, offers: Sequence[Offer], limit: int, *, insist: bool = False) -> Choice | None:
        """The offer and length that promise most, or None when plain decoding does. At most `limit` tokens.

        `insist` leaves plain decoding out: a person asked for this drafter, whatever it costs.
        """
        best: Choice | None = None
        for number, offer in enumerate(offers):
            choice = self._best_length(number, offer, limit)
            if choice is not None and (best is None or choice.gain > best.gain):
                best = choice
        if best is not None and (insist or best.gain >= PAYS):
            return best
        return self._probe(offers, limit)

    def learn(self, offer: Offer, judged: int, accepted: int) -> None:
        """Of `offer`'s tokens `judged` had a verdict and `accepted` stood."""
        if judged:
            self._rate(offer).learn(judged, accepted)

    def emitted(self, tokens: int) -> None:
        """So many tokens left the cycle, whoever proposed them."""
        self._since_probe += tokens

    def _rate(self, offer: Offer) -> _Rate:
        key = (offer.drafter, _bucket(offer.evidence))
        if key not in self._rates:
            # Copies of a long match usually go on; a draft model starts where most published pairs are.
            prior = {0: 0.6, 1: 0.45, 2: 0.6, 3: 0.75, 4: 0.88, 5: 0.94}[key[1]]
            self._rates[key] = _Rate(prior * 4.0, 4.0)
        return self._rates[key]

    def _best_length(self, number: int, offer: Offer, limit: int) -> Choice | None:
        rate = self._rate(offer).value
        best: Choice | None = None
        for length in LENGTHS:
            if length > min(limit, offer.length):
                break
            gain = expected_tokens(rate, length) / (self.cost.of(1 + length) + length * offer.token_cost)
            if best is None or gain > best.gain:
                best = Choice(number, length, gain)
        return best

    def _probe(self, offers: Sequence[Offer], limit: int) -> Choice | None:
        """Rarely ask a drafter that cannot be judged for free, if its best case pays; less often at each failure."""
        if self._since_probe < self._probe_after or limit < 3:
            return None
        for number, offer in enumerate(offers):
            if offer.token_cost > 0.0 and 4.0 / (self.cost.of(4) + 3 * offer.token_cost) >= PAYS:
                self._since_probe = 0
                self._probe_after *= 2
                return Choice(number, 3, 1.0)
        return None
