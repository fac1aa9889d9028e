"""Where a grammar leaves a choice, and for how long: the values of a structured text between its keys.

A stretch is what stands between two forced texts; its last token closes it: `",` behind a name, `},` behind the last
value of an object. Behind the same forced text stretches are mostly of similar length, and close alike.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

KEY = 3
"""Tokens before a stretch that tell it from others: the end of a key, its colon, an opening quote."""

CLOSERS = 8
"""Closing tokens of other stretches that are tried where a stretch has none of its own."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a text stands: behind the forced tokens `key`, `tokens` of a stretch are written; none within what is
    forced, or before anything was."""

    key: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()

    def behind(self, token: int, *, forced: bool) -> "Standing":
        """The text went on with `token`, which began where it was forced to, or was free."""
        if not forced:
            return replace(self, tokens=(*self.tokens, token))
        return Standing((token,) if self.tokens else (*self.key, token)[-KEY:])


@dataclass(slots=True)
class Stretches:
    """The stretches of an answer, and where the text stands."""

    standing: Standing = Standing()
    _lengths: dict[tuple[int, ...], Counter[int]] = field(default_factory=dict)
    _closers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _recent: deque[int] = field(default_factory=lambda: deque(maxlen=CLOSERS))

    def accept(self, token: int, *, forced: bool) -> None:
        """As `Standing.behind`; a stretch that ends is noted."""
        here = self.standing
        if forced and here.key and here.tokens:
            closer = here.tokens[-1]
            self._lengths.setdefault(here.key, Counter())[len(here.tokens)] += 1
            self._closers[here.key] = closer
            if closer in self._recent:
                self._recent.remove(closer)
            self._recent.appendleft(closer)
        self.standing = here.behind(token, forced=forced)

    def closer(self, at: Standing, allows: Callable[[int], bool]) -> int | None:
        """The token that would close the stretch at `at`: that of the last one behind the same text, else of any."""
        own = self._closers.get(at.key)
        return next((one for one in (own, *self._recent) if one is not None and allows(one)), None)

    def ended(self, at: Standing) -> tuple[int, int]:
        """How many stretches behind the same text were longer than that at `at`, and how many ended with the next
        token."""
        lengths = self._lengths.get(at.key, Counter())
        length = len(at.tokens) + 1
        return sum(count for one, count in lengths.items() if one >= length), lengths[length]
