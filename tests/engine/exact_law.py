"""The exact law of a random process, from the process itself: its uniforms become a parameter.

A process is a function of a `Script`, which it asks for uniforms with `random()`, like a numpy Generator. Each place
where the outcome changes is found by halving, so the measures are those of the code under test, not of a copy of it.
"""

import itertools
from collections.abc import Callable, Hashable
from functools import cache

PRECISION = 1e-13
ALMOST_ONE = 1.0 - 2.0**-53


class Script:
    """Gives out the scripted uniforms, then one half. What a process passes to `note` tells its paths apart."""

    def __init__(self, uniforms: tuple[float, ...]) -> None:
        self._uniforms = uniforms
        self.used = 0
        self.notes: list[Hashable] = []

    def random(self) -> float:
        self.used += 1
        return self._uniforms[self.used - 1] if self.used <= len(self._uniforms) else 0.5

    def note(self, what: Hashable) -> None:
        self.notes.append(what)


Process = Callable[[Script], Hashable]


def law(process: Process) -> dict[Hashable, float]:
    """The probability of each outcome of `process`.

    Requires what inversion and acceptance tests do: as one uniform grows from 0 to 1, a path once left does not come
    back, where a path is the outcome and the notes with all later uniforms one half.
    """
    outcomes: dict[Hashable, float] = {}
    _explore(process, (), 1.0, outcomes)
    return outcomes


def _explore(process: Process, uniforms: tuple[float, ...], weight: float, outcomes: dict[Hashable, float]) -> None:
    script = Script(uniforms)
    outcome = process(script)
    if script.used == len(uniforms):
        outcomes[outcome] = outcomes.get(outcome, 0.0) + weight
        return

    @cache
    def path(uniform: float) -> Hashable:
        script = Script((*uniforms, uniform))
        outcome = process(script)
        return outcome, tuple(script.notes), script.used

    for low, high in itertools.pairwise([0.0, *_changes(path, 0.0, ALMOST_ONE), 1.0]):
        _explore(process, (*uniforms, (low + high) / 2), weight * (high - low), outcomes)


def _changes(path: Callable[[float], Hashable], low: float, high: float) -> list[float]:
    if path(low) == path(high):
        return []
    middle = (low + high) / 2
    if high - low < PRECISION:
        return [middle]
    return _changes(path, low, middle) + _changes(path, middle, high)
