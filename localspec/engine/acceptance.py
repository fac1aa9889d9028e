"""How likely a draft token is to stand, from what is known before the target sees it.

A prior by what speaks for the token, moved by one number that follows the text at hand: an online logistic regression
with an intercept only. All verdicts of a kind move it together, so that it follows a change of text within a few
cycles, and the step is small, so that one cycle does not fool it.
"""

from dataclasses import dataclass, field
from math import exp, log
from typing import NamedTuple

from localspec.engine.drafters.base import Place

COPIED = (
    (1, 0.30), (2, 0.53), (3, 0.57), (4, 0.63), (6, 0.76), (8, 0.84), (12, 0.92), (16, 0.93), (24, 0.95), (48, 0.99),
)  # fmt: skip
"""Share of copied tokens that stood, by how many tokens before them were copied, on recorded answers of an instruct
model in seven kinds of work; the latest of several places, or the only one."""

LONG_COPY = 0.99

AGREEING = 0.9
"""Added to the logit where all earlier places went on alike: two witnesses instead of one. Of a long copy they say
nothing: text that stands there often is about to be varied as likely as repeated."""

WITNESSED = 4
"""The longest copy that witnesses speak for."""

SPLIT = 2.0
"""Taken away where they did not: the text is at a fork, whatever most places did there."""

SPLIT_SHORT = 0.6
"""The same behind a single token, which is nearly always at one."""

OWN = 0.8
"""Taken away where an answer copies from itself: it comes back to a turn of phrase to say something else with it. Of
those that go on from 3 to 16 tokens there 64 % stood, of those that go on from the prompt 80 %."""

OWN_FROM = 3
"""The shortest copy of which that is true: below, the answer's own words are the better witness."""


class Fork(NamedTuple):
    """A rate where one earlier place is known, where several went on alike, and where they did not."""

    alone: float
    agreeing: float
    split: float


SHORT = 6
"""Copies up to here are turns of phrase, whose luck says little about longer ones; the two are followed apart."""

RESUMED = (0.35, 0.36, 0.74, 0.8, 0.88, 0.91)
"""Behind an edit, by how many tokens agree already; then as any copy, at least the last."""

REPLACED = 0.37
"""The token behind one that was just replaced: most edits are longer than one token."""

REJOINED = 0.75
"""Those behind it, once it stood."""

CUT = 0.85
"""A token that was copied where a grammar forces the text: what is in doubt is only where the target ends it."""

OPENING = Fork(0.3, 0.8, 0.1)
"""The first token between two forced texts: a value seldom is the last one again, unless it always was."""

PIECE, LONG_PIECE = Fork(0.65, 0.95, 0.22), Fork(0.84, 0.95, 0.22)
"""A letter or digit copied from the prompt inside such a value, behind one token that was copied and behind more."""

PAUSE = Fork(0.4, 0.9, 0.27)
"""The same for anything else: at a comma or the end of a line the value mostly ends."""

CLOSING, CLOSING_WEIGHT = (0.03, 0.13, 0.4), 2.0
"""How often a value ends where a copy of it goes on with a letter, where none goes on, and where it pauses; and how
many values behind the same key that is worth. Measured, like the four above, on nine extractions by an instruct model.
"""

STEP = 0.15
"""How far one surprising verdict moves the logit: twenty of them turn an even chance into 19 in 20."""

BOUND = 3.0
"""The text at hand moves the logit no further than this."""

PIECES = -1.0
"""Where the text at hand begins under a grammar: it takes prose apart into fields, and a copy of prose ends with its
piece: of one extraction to JSON the first five lookup drafts failed at their first token."""

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


def _forked(place: Place, rates: Fork) -> float:
    if place.seen <= 1:
        return rates.alone
    return rates.agreeing if place.same >= place.seen else rates.split


def _bounded_prior(place: Place) -> float | None:
    """That of a token under a grammar; None where it is as any other copy."""
    match place.ground:
        case "cut":
            return CUT
        case "opening":
            return _forked(place, OPENING)
        case "piece":
            return _forked(place, PIECE if place.copied < 2 else LONG_PIECE)
        case "pause":
            return _forked(place, PAUSE)
        case "closing":
            before = CLOSING_WEIGHT * CLOSING[place.copied]
            return (place.same + before) / (place.seen + CLOSING_WEIGHT)
    return None


@dataclass(slots=True)
class _Leaning:
    """How much the text at hand differs from the prior, in logits."""

    value: float = 0.0
    step: float = STEP

    def learn(self, expected: float, stood: bool) -> None:
        self.value = min(max(self.value + self.step * (stood - expected), -BOUND), BOUND)


def _copied_prior(copied: int) -> float:
    return next((rate for longest, rate in COPIED if copied <= longest), LONG_COPY)


def prior(place: Place) -> float:
    """The probability that a copied token stands, whatever the text."""
    if place.ground == "replaced":
        return REPLACED if place.copied == 0 else max(REJOINED, _copied_prior(place.copied))
    if (bounded := _bounded_prior(place)) is not None:
        return bounded
    if place.ground == "renamed":
        # Laplace's rule: one more place of each kind than was seen.
        return (place.same + 1.0) / (place.seen + 2.0)
    if place.ground == "resumed":
        known = RESUMED[min(place.copied, len(RESUMED) - 1)]
        return max(known, _copied_prior(place.copied)) if place.copied >= len(RESUMED) else known
    x = logit(_copied_prior(place.copied))
    if place.seen > 1:
        share = min(place.same / place.seen, 1.0)
        if share < 1.0:
            x -= SPLIT if place.copied > 1 else SPLIT_SHORT
        elif place.copied <= WITNESSED:
            x += AGREEING
    if place.own and place.copied >= OWN_FROM:
        x -= OWN
    return sigmoid(x)


FREE = ("short", "long")
BOUNDED = ("cut", "opening", "piece", "pause", "closing")
"""The kinds of copies whose luck is followed apart: by their length, and by their ground under a grammar."""


@dataclass(slots=True)
class LookupAcceptance:
    """What becomes of copied tokens, in this conversation."""

    _leanings: dict[str, _Leaning] = field(default_factory=lambda: {kind: _Leaning() for kind in (*FREE, *BOUNDED)})

    def begin(self, *, bounded: bool = False) -> None:
        """A new answer; `bounded` by a grammar."""
        for kind, leaning in self._leanings.items():
            leaning.value *= CARRIED
            if bounded and kind in FREE:
                leaning.value = min(leaning.value, PIECES)

    def rate(self, place: Place) -> float:
        """The probability that the token stands, those before it having stood."""
        return sigmoid(logit(prior(place)) + self._leaning(place).value)

    def learn(self, place: Place, stood: bool) -> None:
        self._leaning(place).learn(self.rate(place), stood)

    def _leaning(self, place: Place) -> _Leaning:
        return self._leanings[place.ground if place.ground in BOUNDED else FREE[place.copied > SHORT]]


DRAFT_MEMORY = 24.0
"""Judged tokens the draft model's rate remembers: quick to follow a change of text, slow to be fooled by one cycle."""

DRAFT_WEIGHT = 20.0
"""Judged tokens that what is thought of a draft model beforehand is worth: answers scatter that much around it."""

PAIR_STEP = 0.05
"""As `STEP`, for what is kept of a pair over many answers."""

OWN_WEIGHT, OWN_SHIFT = 1.0, 0.5
"""logit of acceptance = OWN_SHIFT + OWN_WEIGHT * logit of the draft's own top probability, on recorded answers."""

CERTAIN = 4.0
"""The target's confidence in a token, in logits, counts up to here: beyond, certainty is certainty."""

CONFIDENT_WEIGHT, CONFIDENT_SHIFT = 0.9, -0.2
"""logit of a draft model's acceptance = CONFIDENT_SHIFT + CONFIDENT_WEIGHT * the target's confidence, likewise."""

CONFIDENCE_MEMORY = 24.0
"""Tokens the target's confidence is averaged over."""

LOOKING = 0.7
"""Share of the failures that is left when a draft model stops before the tokens it is unsure of."""

ENOUGH_CONFIDENCE = 9.0
"""Tokens of it, fading ones counted by what is left of them, before it says anything of the text: 12 tokens."""


@dataclass(slots=True)
class DraftAcceptance:
    """What becomes of a draft model's tokens. Before it is asked, the target's own confidence tells: where the target
    is certain, a smaller model of its family mostly thinks the same. How much so is learnt of the pair."""

    _accepted: float = 0.0
    _judged: float = 0.0
    _leaning: _Leaning = field(default_factory=_Leaning)
    _pair: _Leaning = field(default_factory=lambda: _Leaning(step=PAIR_STEP))
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
