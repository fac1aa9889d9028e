"""Which drafter, and how many tokens, this cycle. Pure: no clock, no model; what it knows is told to it.

When the i-th draft token stands with probability a_i once those before it stood, a draft of K tokens is expected to
yield T(K) = 1 + a_1 + a_1 a_2 + ... tokens (with all a_i the same, (1 - a^(K+1)) / (1 - a): Leviathan et al. 2023,
eq. 1) and costs C(K): the target's pass of 1 + K tokens and the drawing. Time not spent here yields tokens at the pace
of this text, so the best draft has the largest T(K) - pace C(K) (Dinkelbach 1967, for the largest ratio over many
cycles); nothing drafted is the choice K = 0 with T = C = 1. A copy that stands goes on in the next cycle, so two drafts
at a cheap step of the curve may be worth more than one twice as long (`_later`). Costs are in plain
passes of the target.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localspec.engine.events import MODEL_DRAFTERS, DrafterName

PAYS = 1.06
"""Drafting must promise this much over plain decoding: estimates are noisy and a plain pass is certain."""

DRAWN_PAYS = 1.08
"""The same for a draft model, whose own cycles tell what it earns."""

PACE_MEMORY = 0.85
"""Share of the pace that is carried from cycle to cycle: a copied stretch is known as one after half a dozen."""

PROBE_BUDGET = 0.02
"""Share of the answer's tokens that trying a drafter which seems not to pay may cost, as if every try failed."""

UNTRIED = 64
"""Tokens at an answer's beginning in which nothing is tried that seems not to pay: a short answer has no time to win it
back, however cheap the try."""

PROBE_LENGTH = 3
"""Tokens of such a try: enough verdicts to change an estimate, and cheap on every curve measured."""

FORECAST = 96
"""Tokens an answer is expected to go on for at least; later, as many as it has: how long is not known."""

LAST = 2
"""Tokens of the answer that are no draft tokens in its last cycle: the first, which reading the prompt yields, and the
one after the draft."""

DRAWN_MEMORY = 0.93
"""Share of what its own cycles say of a draft model that is carried from one to the next."""

TRUST = 6.0
"""Cycles of a draft model that the estimate beforehand is worth."""

LATER = 0.6
"""What drafts of later cycles are worth beside one made now: they rest on the same guess of how far a copy goes."""

SAFELY = 3.0
"""What starting a drafter costs must be expected back this many times: how long the answer goes on is a guess."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a drafter could do now: `rates[i]` is the probability that its i-th token stands, those before it standing,
    and each token costs `token_cost` plain passes to draft.

    `start_cost` is what it costs to bring the drafter in step first, in plain passes: once, and then never again.
    """

    drafter: DrafterName
    rates: Sequence[float]
    token_cost: float = 0.0
    start_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """Offer number `offer` with `length` tokens: `expected` tokens leave the cycle, at `gain` times the plain speed."""

    offer: int
    length: int
    expected: float
    gain: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do (None: a plain pass), the best there was to choose from, for those who ask why, and the tokens that a
    plain pass's time must yield here."""

    choice: Choice | None
    best: Choice | None = None
    pace: float = 1.0


HARDLY = 0.01
"""A token that stands less often than this is not worth looking at, nor are those behind it."""

Cost = Callable[[int], float]
"""The target's pass by its width in tokens, in plain passes."""

_Length = tuple[int, float, float]
"""Draft tokens, the tokens that are expected to leave the cycle, and what it costs in plain passes."""


@dataclass(slots=True)
class Controller:
    """Chooses for one answer. `forecast` bounds the tokens still to come, when that is known."""

    forecast: float = float("inf")
    _emitted: int = 0
    _tokens: float = 1.0
    _spent: float = 1.0
    _drawn: float = 0.0
    _drawn_spent: float = 0.0
    _probed: float = 0.0
    _probes: int = 0

    def choose(self, offers: Sequence[Offer], limit: int, cost: Cost, *, insist: bool = False) -> Decision:
        """The offer and length that promise most, or a plain pass when that does. At most `limit` draft tokens.

        `insist` leaves plain decoding out: a person asked for this drafter, whatever it costs.
        """
        possible = [_lengths(offer, limit, cost) for offer in offers]
        pace = self.pace
        if self.forecast - self._emitted <= limit + LAST:
            # What is saved here cannot be spent on a later copy.
            gains = (tokens / spent for lengths in possible for _, tokens, spent in lengths)
            pace = max(1.0, min(pace, max(gains, default=1.0)))

        lengths: list[Choice] = []
        worth: dict[int, float] = {}
        for number, known in enumerate(possible):
            if known:
                later = _later(offers[number], len(known), cost, pace)
                worths = [tokens - pace * spent + later[length] for length, tokens, spent in known]
                worth[number] = max(worths)
                length, tokens, spent = known[worths.index(worth[number])]
                lengths.append(Choice(number, length, tokens, tokens / spent))
        paying = [choice for choice in lengths if insist or self._pays(offers[choice.offer], choice)]
        if paying:
            best = max(paying, key=lambda choice: worth[choice.offer])
            return Decision(best, best, pace)
        refused = max(lengths, key=lambda choice: choice.gain, default=None)
        return Decision(self._probe(offers, limit, cost), refused, pace)

    def learn(self, drafter: DrafterName | None, emitted: int, spent: float) -> None:
        """`emitted` tokens left a cycle that cost `spent` plain passes; None: nothing was drafted by choice."""
        self._emitted += emitted
        self._tokens = self._tokens * PACE_MEMORY + emitted
        self._spent = self._spent * PACE_MEMORY + spent
        if drafter in MODEL_DRAFTERS:
            self._drawn = self._drawn * DRAWN_MEMORY + emitted
            self._drawn_spent = self._drawn_spent * DRAWN_MEMORY + spent

    @property
    def pace(self) -> float:
        """Tokens a plain pass's time yields in this text; plain decoding is always there, so at least 1."""
        return max(1.0, self._tokens / self._spent)

    @property
    def to_come(self) -> float:
        """Tokens the answer is expected to go on for."""
        return min(self.forecast - self._emitted, float(max(FORECAST, self._emitted)))

    def _pays(self, offer: Offer, choice: Choice) -> bool:
        if not offer.token_cost:
            return choice.gain >= PAYS
        # A draft model stops where it is unsure: how well, only its own cycles tell.
        spent = self._drawn_spent + TRUST * choice.expected / choice.gain
        if (self._drawn + TRUST * choice.expected) / spent < DRAWN_PAYS:
            return False
        saved = self.to_come * (1.0 - 1.0 / choice.gain)
        return offer.start_cost == 0.0 or offer.start_cost * SAFELY <= saved

    def _probe(self, offers: Sequence[Offer], limit: int, cost: Cost) -> Choice | None:
        """Rarely ask a drafter that cannot be judged for free, if its best case pays; less often at each failure."""
        if limit < PROBE_LENGTH or self._emitted < UNTRIED:
            return None
        for number, offer in enumerate(offers):
            if offer.token_cost == 0.0 or len(offer.rates) < PROBE_LENGTH:
                continue
            spent = cost(1 + PROBE_LENGTH) + PROBE_LENGTH * offer.token_cost
            price = (spent - 1.0 + offer.start_cost) * 2.0**self._probes
            if (1 + PROBE_LENGTH) / spent < PAYS or self._probed + price > PROBE_BUDGET * self._emitted:
                continue
            self._probed += price
            self._probes += 1
            tokens = _expected(offer.rates[:PROBE_LENGTH])
            return Choice(number, PROBE_LENGTH, tokens, tokens / spent)
        return None


@dataclass(slots=True)
class Drawing:
    """How far a draft model goes on in one cycle: asked before each draw and before each pass of the draft model.

    `rate` is the acceptance expected of tokens not yet looked at, `token_cost` a pass of the draft model in plain
    passes.
    Nothing drawn is ever taken back; what is asked about was known before the draw.
    """

    rate: float
    token_cost: float
    cost: Cost
    pace: float
    limit: int
    insist: bool = False
    drawn: int = 0
    standing: float = 1.0

    def draw(self, stands: float) -> bool:
        """Whether to draw from the distribution at hand, whose token stands with probability `stands`."""
        if not (self.insist and self.drawn == 0) and not self._pays(stands, 0):
            return False
        self.drawn += 1
        self.standing *= stands
        return True

    def go_on(self) -> bool:
        """Whether to make the next distribution, with a pass of the draft model."""
        return self._pays(self.rate, 1)

    def _pays(self, stands: float, passes: int) -> bool:
        """Whether one to all of the tokens left return what they cost: steps of the curve make more pay than fewer."""
        here = self.cost(1 + self.drawn)
        tokens, standing = 0.0, self.standing * stands
        for more in range(1, self.limit - self.drawn + 1):
            tokens += standing
            standing *= self.rate
            spent = self.cost(1 + self.drawn + more) - here + (more - 1 + passes) * self.token_cost
            if tokens > self.pace * spent:
                return True
        return False


def _expected(rates: Sequence[float]) -> float:
    tokens = standing = 1.0
    for rate in rates:
        standing *= rate
        tokens += standing
    return tokens


def _lengths(offer: Offer, limit: int, cost: Cost) -> list[_Length]:
    """Every length that the offer may be taken at, up to where hardly a token more would stand."""
    found: list[_Length] = []
    tokens = standing = 1.0
    for length, rate in enumerate(offer.rates[: max(0, limit)], 1):
        standing *= rate
        tokens += standing
        found.append((length, tokens, cost(1 + length) + length * offer.token_cost))
        if standing < HARDLY:
            break
    return found


def _later(offer: Offer, count: int, cost: Cost, pace: float) -> list[float]:
    """What the rest of the offer's first `count` tokens is worth behind a draft of each length, in tokens beyond the
    pace: by dynamic programming from the end, as the next cycle goes on one token of the target's own further."""
    later = [0.0] * (count + 1)
    if offer.token_cost:
        return later
    rates = offer.rates
    prices = [pace * cost(1 + length) for length in range(count + 1)]
    worth = [0.0] * (count + 2)
    for at in range(count - 1, -1, -1):
        best, tokens, standing = 0.0, 1.0, 1.0
        for length in range(1, count - at + 1):
            behind = at + length
            standing *= rates[behind - 1]
            tokens += standing
            ahead = LATER * standing * rates[behind] * worth[behind + 1] if behind < count else 0.0
            if at == 0:
                later[length] = ahead
            best = max(best, tokens - prices[length] + ahead)
            if standing < HARDLY:
                break
        worth[at] = best
    return later
