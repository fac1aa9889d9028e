"""How likely a copied token is to stand, from what is known before the target sees it: a prior by what speaks for the
token, moved by what became of such tokens in the text at hand.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from localspec.engine.drafters.base import Place
from localspec.engine.drafters.joints import Joint
from localspec.engine.leaning import CARRIED, Leaning, Luck, logit, sigmoid

COPIED = ((1, 0.35), (2, 0.59), (4, 0.63), (8, 0.84), (16, 0.915), (24, 0.925), (96, 0.967))
"""Chance of a copied token to stand, by how many tokens before it were copied: the latest of several places, or the
only one. This and the other figures here were fitted on 166 answers of an instruct model in eight kinds of work, for
the speed that drafts chosen by them reach on three cost curves; 34 others were kept apart and gained as much."""

LONG_COPY = 0.996

AGREEING = 1.1
"""Added to the logit where all earlier places went on alike: two witnesses instead of one. Of a long copy they say
nothing: text that stands there often is about to be varied as likely as repeated."""

WITNESSED = 4
"""The longest copy that witnesses speak for."""

SPLIT = 3.3
"""Taken away where they did not: the text is at a fork, whatever most places did there."""

SPLIT_SHORT = 0.4
"""The same behind a single token, which is nearly always at one."""

JOINED: Mapping[Joint, tuple[float, float, float, float, float]] = {
    "inner": (0.0, 0.3, 0.7, 0.9, 1.0),
    "blank": (0.6, 0.6, 0.7, 0.8, 0.8),
    "word": (-0.7, -0.6, -0.3, 0.0, 0.0),
    "digit": (0.0, 0.3, 0.3, 0.6, 0.6),
    "sign": (-1.0, -0.7, -0.6, -0.4, -0.3),
    "line": (-1.3, -0.7, -0.7, -0.2, 0.0),
    "comma": (-0.5, -0.5, -0.5, -0.5, -0.6),
    "clause": (-1.2, -0.7, -0.5, -0.2, -0.1),
    "stop": (-0.4, -0.9, -1.5, -1.3, -1.4),
    "sentence": (-1.2, -4.0, -3.2, -4.5, -1.7),
}
"""Added to the logit by how the token joins on to the one before it, for copies of 1, 2 to 4, 5 to 12 and more tokens:
a copy breaks off at the end of a sentence, not within a word."""

STRETCHES = (1, 4, 12, 32)
"""The longest copies of the first four columns."""

OWN = 0.4
"""Taken away where an answer copies the model's own words, from itself or an earlier one: it comes back to a turn of
phrase to say something else with it."""

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

PIECES = -1.0
"""Where the text at hand begins under a grammar: it takes prose apart into fields, and a copy of prose ends with its
piece: of one extraction to JSON the first five lookup drafts failed at their first token."""


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


def _copied_prior(copied: int) -> float:
    return next((rate for longest, rate in COPIED if copied <= longest), LONG_COPY)


def _joined(place: Place) -> float:
    known = JOINED.get(place.joint)
    return known[bisect_left(STRETCHES, place.copied)] if known is not None else 0.0


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
        known = max(known, _copied_prior(place.copied)) if place.copied >= len(RESUMED) else known
        return sigmoid(logit(known) + _joined(place))
    x = logit(_copied_prior(place.copied)) + _joined(place)
    if place.seen > 1:
        share = min(place.same / place.seen, 1.0)
        if share < 1.0:
            x -= SPLIT if place.copied > 1 else SPLIT_SHORT
        elif place.copied <= WITNESSED:
            x += AGREEING
    if place.own and place.copied >= OWN_FROM:
        x -= OWN
    return sigmoid(x)


LUCK: Mapping[str, tuple[float, float]] = {"short": (5.0, 0.97), "long": (1.5, 0.996), "sentence": (0.9, 0.95)}
"""What is followed apart in a free text, short copies, long ones, and how any go on behind a sentence: the prior's
weight and the memory (`Luck`). A verdict on a long copy says little, so that many are remembered; a text that was
copied past one sentence mostly is past the next."""

BOUNDED = ("cut", "opening", "piece", "pause", "closing")
"""The grounds of copies under a grammar that are followed apart."""


@dataclass(slots=True)
class LookupAcceptance:
    """What becomes of copied tokens, in one answer after the other."""

    _lucks: dict[str, Luck] = field(default_factory=lambda: {kind: Luck(*how) for kind, how in LUCK.items()})
    _leanings: dict[str, Leaning] = field(default_factory=lambda: {kind: Leaning() for kind in BOUNDED})

    def begin(self, *, bounded: bool = False) -> None:
        """A new answer; `bounded` by a grammar."""
        # One answer's luck says nothing of the next: a summary copies whole sentences, the answer to a question behind
        # it three words. With half of the counts kept, 200 answers in mixed order took 1 % longer.
        self._lucks = {kind: Luck(*how, start=PIECES if bounded else 0.0) for kind, how in LUCK.items()}
        for leaning in self._leanings.values():
            leaning.value *= CARRIED

    def rate(self, place: Place) -> float:
        """The probability that the token stands, those before it having stood."""
        moved = self._leanings[place.ground] if place.ground in BOUNDED else self._luck(place)
        return sigmoid(logit(prior(place)) + moved.value)

    def learn(self, place: Place, stood: bool) -> None:
        if place.ground in BOUNDED:
            self._leanings[place.ground].learn(self.rate(place), stood)
        else:
            luck = self._luck(place)
            luck.learn(sigmoid(logit(prior(place)) + luck.start), stood)

    def _luck(self, place: Place) -> Luck:
        if place.joint == "sentence":
            return self._lucks["sentence"]
        return self._lucks["short" if place.copied <= SHORT else "long"]
