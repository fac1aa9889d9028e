"""A rule run with numbers that are not drawn: the probability of each way it can go, from the rule's own code.

The rule is given a `Trace` in place of a random generator. A uniform it asks for is an `Unknown`, which notes what it
is compared with: both sides are followed, each with its share of [0, 1). A token it draws from a `Watched` distribution
is a `Drawn`, which carries the law it would follow. So one run per way gives the exact law of what comes out, with no
sampling and no copy of the rule. A rule that does anything else with its uniforms is run with one half in their place,
and its law comes out wrong rather than right.

One run may stand for many draft tokens at once (`Many`): they part where the rule tells them apart.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution, Uniform

Outcome = TypeVar("Outcome")
Chance = float | NDArray[np.float64]


def ways(process: Callable[["Trace"], Outcome], many: int = 0) -> Iterator[tuple["Trace", Outcome]]:
    """Every way `process` can go, with the trace that has its probability; for `many` tokens at once, or 0 for one."""
    waiting: list[tuple[bool, ...]] = [()]
    while waiting:
        trace = Trace(waiting.pop(), many)
        outcome = process(trace)
        yield trace, outcome
        waiting.extend(trace.untaken)


class Trace:
    """One way: decisions as scripted, then the first side of each; the other sides are left in `untaken`.

    `probability` is that of this way, for each of many tokens when there are any; `alive` says which of them go it.
    """

    def __init__(self, script: tuple[bool, ...] = (), many: int = 0) -> None:
        self._script = script
        self._made: list[bool] = []
        self.probability: Chance = np.ones(many) if many else 1.0
        self.alive: NDArray[np.bool_] = np.ones(many, np.bool_)
        self.untaken: list[tuple[bool, ...]] = []

    def random(self) -> float:
        """Stands for a uniform in [0, 1)."""
        return Unknown(self, 1.0, [0.0, 1.0])

    def decide(self, chance: Chance) -> bool:
        """Which side this way takes of a decision that is true with probability `chance`."""
        if isinstance(chance, np.ndarray):
            own = chance[self.alive]
            never, always = not (own > 0.0).any(), bool((own >= 1.0).all())
        else:
            never, always = chance <= 0.0, chance >= 1.0
        if never or always:
            return always and not never
        side = self._side()
        self.probability = self.probability * (chance if side else 1.0 - chance)
        return side

    def part(self, true: NDArray[np.bool_]) -> bool:
        """Which side this way takes of a question that is `true` of some of its tokens: those alone go on with it."""
        own = true[self.alive]
        if own.all() or not own.any():
            return bool(own.all())
        side = self._side()
        self.alive = self.alive & (true if side else ~true)
        return side

    def _side(self) -> bool:
        at = len(self._made)
        side = self._script[at] if at < len(self._script) else True
        if at >= len(self._script):
            self.untaken.append((*self._made, False))
        self._made.append(side)
        return side


class Many:
    """A number for each of many draft tokens, that a rule may reckon with and compare."""

    def __init__(self, trace: Trace, values: NDArray[np.float64]) -> None:
        self.trace, self.values = trace, values

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Unknown):
            return other * self
        return Many(self.trace, self.values * _plain(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Many":
        return Many(self.trace, self.values / _plain(other))

    def __rtruediv__(self, other: Any) -> "Many":
        return Many(self.trace, _plain(other) / self.values)

    def __add__(self, other: Any) -> "Many":
        return Many(self.trace, self.values + _plain(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Many":
        return Many(self.trace, self.values - _plain(other))

    def __lt__(self, other: Any) -> bool:
        return other > self if isinstance(other, Unknown) else self.trace.part(self.values < _plain(other))

    def __le__(self, other: Any) -> bool:
        return other >= self if isinstance(other, Unknown) else self.trace.part(self.values <= _plain(other))

    def __gt__(self, other: Any) -> bool:
        return other < self if isinstance(other, Unknown) else self.trace.part(self.values > _plain(other))

    def __ge__(self, other: Any) -> bool:
        return other <= self if isinstance(other, Unknown) else self.trace.part(self.values >= _plain(other))

    def __eq__(self, other: object) -> bool:
        return self.trace.part(self.values == _plain(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def _plain(number: Any) -> Any:
    return number.values if isinstance(number, Many) else number


class Every:
    """Stands for each of the draft tokens `ids` at once. A rule can ask for their probabilities."""

    def __init__(self, trace: Trace, ids: NDArray[np.int32]) -> None:
        self.trace, self.ids = trace, ids


class Unknown(float):
    """`scale` times a uniform of which only is known between which `bounds` it lies on this way."""

    _trace: Trace
    _scale: Any
    _bounds: list[Any]

    def __new__(cls, trace: Trace, scale: Any, bounds: list[Any]) -> "Unknown":
        made = super().__new__(cls, 0.5)
        made._trace, made._scale, made._bounds = trace, scale, bounds
        return made

    def __mul__(self, factor: Any) -> Any:
        return Unknown(self._trace, self._scale * _plain(factor), self._bounds)

    __rmul__ = __mul__

    def __lt__(self, other: Any) -> bool:
        return self._below(_plain(other))

    __le__ = __lt__

    def __gt__(self, other: Any) -> bool:
        return not self._below(_plain(other))

    __ge__ = __gt__

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = float.__hash__

    def _below(self, other: Any) -> bool:
        low, high = self._bounds
        if isinstance(other, np.ndarray) or isinstance(self._scale, np.ndarray) or isinstance(low, np.ndarray):
            with np.errstate(divide="ignore", invalid="ignore"):
                cut = np.clip(np.nan_to_num(other / self._scale), low, high)
                chance: Chance = np.nan_to_num((cut - low) / (high - low))
        else:
            cut = min(max(other / self._scale if self._scale else float(other > 0), low), high)
            chance = (cut - low) / (high - low) if high > low else 0.0
        below = self._trace.decide(chance)
        self._bounds[1 if below else 0] = cut
        return below


class Watched(Distribution):
    """A distribution whose draws are not made but told apart; what is computed of it is kept, for it is asked often."""

    __slots__ = ("_left", "_over")
    _left: dict[tuple[int, float], tuple[Distribution, "Watched | None"]]
    _over: dict[tuple[int, float], tuple[Distribution, float]]

    @classmethod
    def of(cls, law: Distribution) -> "Watched":
        made = cls(law.ids, law.probs)
        object.__setattr__(made, "_left", {})
        object.__setattr__(made, "_over", {})
        return made

    def prob(self, token: Any) -> Any:
        return Many(token.trace, self.probs_of(token.ids)) if isinstance(token, Every) else super().prob(token)

    def probs_of(self, ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """The probability of each of `ids`."""
        if self.ids is None:
            return self.probs[ids]
        at = np.minimum(self.ids.searchsorted(ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, self.probs[at], 0.0)

    def sample(self, rng: Uniform) -> int:
        return Drawn(rng, self) if isinstance(rng, Trace) else super().sample(rng)

    def excess(self, other: Distribution, scale: float = 1.0) -> "Watched | None":
        # The other one is kept beside the result, so that its number stays its own.
        key = id(other), scale
        if key not in self._left:
            left = super().excess(other, scale)
            self._left[key] = other, None if left is None else Watched.of(left)
        return self._left[key][1]

    def surplus(self, other: Distribution, scale: float = 1.0) -> float:
        key = id(other), scale
        if key not in self._over:
            self._over[key] = other, super().surplus(other, scale)
        return self._over[key][1]


class Drawn(int):
    """A token drawn from `law`, not yet looked at. Compared with another token it is that one with the law's share."""

    _trace: Trace
    _law: Distribution

    def __new__(cls, trace: Trace, law: Distribution) -> "Drawn":
        made = super().__new__(cls, -1)
        made._trace, made._law = trace, law
        return made

    @property
    def law(self) -> Distribution:
        """What it follows on this way, after every look at it."""
        return self._law

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int):
            raise TypeError("a drawn token is compared with many at once")
        token = int(other)
        same = self._trace.decide(self._law.prob(token))
        if same:
            self._law = Distribution.one_hot(token)
        else:
            ids = np.arange(len(self._law.probs), dtype=np.int32) if self._law.ids is None else self._law.ids
            self._law = Distribution.from_weights(ids, np.where(ids == token, 0.0, self._law.probs)) or self._law
        return same

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


def law_of(token: int) -> Distribution:
    """What a token in a rule's verdict follows: itself, when it was not drawn."""
    return token.law if isinstance(token, Drawn) else Distribution.one_hot(int(token))
