"""Drafts under a grammar, woven of what it forces and of what was copied between: a key, the value that followed it
before, the next key. So one pass takes several of the short stretches that such a text is made of."""

from collections.abc import Callable, Sequence

from localspec.engine.drafters.base import Draft, Ground, Place
from localspec.engine.drafters.grammar import FORCED, GrammarDrafter
from localspec.engine.drafters.lookup import Lookup

LEAST = 0.2
"""A draft ends where it stands less often than this: what comes behind is not worth looking for."""

LONGEST = 40
"""Tokens of a stretch from which on it is a text of its own, and no piece of another."""

Step = tuple[int, Place, int]
"""A token, what speaks for it, and the position it was copied from; -1: from none."""


class Weaver:
    """One draft in the making.

    What is forced comes first, wherever something is. In between goes what promises most: the copy that lookup makes,
    a word of the prompt that begins like the value, the token that closes it.
    """

    def __init__(self, forced: GrammarDrafter, lookup: Lookup | None, rate: Callable[[Place], float]) -> None:
        self._forced, self._lookup, self._rate = forced, lookup, rate
        self._grammar = forced.grammar
        self._grammar.cut(0)
        self._standing = forced.stretches.standing
        self._walk = lookup.walk() if lookup is not None else None
        self._run: list[Step] = []
        self._steps: list[Step] = []
        self._before = -1

    def draft(self, history: Sequence[int], limit: int) -> Draft:
        """At most `limit` tokens to follow `history`, all of which the grammar admits."""
        found = self._lookup.draft(history, limit) if self._lookup is not None else Draft(())
        self._run = list(zip(found.tokens, found.places, found.positions, strict=True))
        self._before = history[-1] if history else -1
        stands = 1.0
        while len(self._steps) < limit and stands >= LEAST:
            steps = self._certain(limit - len(self._steps)) or self._likely()
            if not steps:
                break
            for step in steps:
                self._put(step)
                stands *= self._rate(step[1])
            if self._forced.ends(steps[-1][0]):
                break
        tokens, places, positions = zip(*self._steps, strict=True) if self._steps else ((), (), ())
        return Draft(tokens, None, found.match_length, places[0].ground if places else "match", places, positions)

    def _certain(self, limit: int) -> list[Step]:
        """What is forced."""
        return [(token, FORCED, -1) for token in self._forced.extend(limit, self._standing)]

    def _likely(self) -> list[Step]:
        """One token where the grammar leaves a choice; none where nothing is known."""
        copied = self._copied()
        steps = [step for step in (copied, self._closing(copied)) if step is not None]
        if not steps:
            return []
        best = max(steps, key=lambda step: self._rate(step[1]))
        self._grammar.push(best[0])
        return [best]

    def _put(self, step: Step) -> None:
        token, place, _ = step
        self._steps.append(step)
        self._before = token
        # The copy goes on for as long as it says the same.
        self._run = self._run[1:] if self._run and self._run[0][0] == token else []
        self._standing = self._standing.behind(token, forced=place.ground in ("forced", "cut"))
        if self._walk is not None:
            self._walk.step(token)

    def _copied(self) -> Step | None:
        """What a copy says: the one that is being made, a word of the prompt, what mostly followed before."""
        if self._lookup is None or self._walk is None:
            return None
        if word := self._word():
            self._run = word
        step = self._run[0] if self._goes_on() else self._lookup.guess(self._walk, self._grammar.allows)
        if step is None:
            return None
        token, place, position = step
        joint = self._lookup.joint(self._before, token)
        return token, place._replace(ground=self._ground(step), joint=joint), position

    def _goes_on(self) -> bool:
        return bool(self._run) and self._grammar.allows(self._run[0][0])

    def _word(self) -> list[Step]:
        """The rest of a word of the prompt that begins like the value here, and what stands behind it."""
        value = self._forced.value(self._standing.tokens)
        # A copy of more than the value so far is of a place that more speaks for.
        if not self._is_value() or (self._goes_on() and self._run[0][1].copied > len(value)):
            return []
        found = self._forced.word(value)
        if found is None or self._lookup is None:
            return []
        rest, behind = found
        at = len(value)
        run = [(token, Place(at + n), self._lookup.offset + behind - 1) for n, token in enumerate(rest)]
        tokens = self._lookup.behind(behind, LONGEST)
        run += [(token, Place(at + len(rest) + n), self._lookup.offset + behind + n) for n, token in enumerate(tokens)]
        return run

    def _ground(self, step: Step) -> Ground:
        """What a copied token rests on, by where the text stands."""
        token, place, position = step
        if self._grammar.is_forced():
            return "cut"
        if not self._is_value():
            return place.ground
        if not self._standing.tokens:
            return "opening"
        if self._lookup is None or not 0 <= position < self._lookup.answer:
            return place.ground
        return "piece" if self._forced.is_word(token) else "pause"

    def _is_value(self) -> bool:
        """Whether the text is in a stretch, or before one, that is a piece of another text and none of its own."""
        return bool(self._standing.key) and len(self._standing.tokens) <= LONGEST

    def _closing(self, copied: Step | None) -> Step | None:
        """The token that would close the stretch."""
        if self._lookup is None or not self._standing.tokens or not self._is_value():
            return None
        token = self._forced.stretches.closer(self._standing, self._grammar.allows)
        if token is None:
            return None
        seen, same = self._forced.stretches.ended(self._standing)
        ground = copied[1].ground if copied is not None else None
        how = 2 if ground == "pause" else 0 if ground == "piece" else 1
        return token, Place(how, seen, same, "closing"), -1
