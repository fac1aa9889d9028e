"""Where the end of a growing token list stood before, and how often it went on how.

The index is a suffix automaton (Blumer et al. 1985), as in SAM Decoding (Hu et al. 2024): it grows by a token in
amortised constant time, and always knows the longest end of the text that stood there before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_REFRESHED = 32
"""How many ends of the text learn of each new occurrence, longest first. Ordinary text has fewer that ever recurred;
in one that repeats without end there are as many as tokens, and any of their occurrences continues alike."""


@dataclass(frozen=True, slots=True)
class Match:
    """The last `length` tokens also stand right before `position` (an index into the tokens)."""

    position: int
    length: int


class SuffixIndex:
    """Where the end of a growing token list stood before. About 500 bytes a token.

    One state of the automaton stands for the stretches that occur at exactly the same places; its link leads to the
    state of the longest end that occurs elsewhere too. So the link of the state of the whole text is the longest match.
    """

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]  # of the longest stretch the state stands for
        self._latest = [0]  # the position after an occurrence, the latest but for _REFRESHED
        self._count = [0]  # occurrences that something follows, but for _REFRESHED
        self._last = 0
        for token in tokens:
            self.extend(token)

    def extend(self, token: int) -> None:
        """Append `token`."""
        edges, links, lengths, latest, counts = self._next, self._link, self._length, self._latest, self._count
        # Only now do the ends of the text so far count as occurrences: until here they were what was looked up.
        here = len(self.tokens)
        state = self._last
        for _ in range(_REFRESHED):
            if state <= 0:
                break
            latest[state] = here
            counts[state] += 1
            state = links[state]

        self.tokens.append(token)
        whole = len(edges)
        edges.append({})
        links.append(0)
        lengths.append(here + 1)
        latest.append(here + 1)
        counts.append(0)
        state = self._last
        self._last = whole
        while state >= 0 and token not in edges[state]:
            edges[state][token] = whole
            state = links[state]
        if state < 0:
            return
        known = edges[state][token]
        if lengths[known] == lengths[state] + 1:
            links[whole] = known
            return
        # The end of the text is only a part of what `known` stands for, and from now on occurs once more: split it.
        part = len(edges)
        edges.append(edges[known].copy())
        links.append(links[known])
        lengths.append(lengths[state] + 1)
        latest.append(latest[known])
        counts.append(counts[known])
        links[known] = links[whole] = part
        while state >= 0 and edges[state].get(token) == known:
            edges[state][token] = part
            state = links[state]

    def matches(self) -> Iterator[Match]:
        """Earlier occurrences of ends of the text: the longest end that has one, then ever shorter ones that occur at
        further places, each with its latest occurrence."""
        for state in self.states():
            yield Match(self._latest[state], self._length[state])

    def states(self) -> Iterator[int]:
        """The states of these ends, longest first."""
        state = self._link[self._last]
        while state > 0:
            yield state
            state = self._link[state]

    def link(self, state: int) -> int:
        """The state of the longest end of the state's stretches that occurs elsewhere too; 0: of none."""
        return max(0, self._link[state])

    def match(self, state: int) -> Match:
        """The state's longest stretch, and its latest occurrence."""
        return Match(self._latest[state], self._length[state])

    def count(self, state: int) -> int:
        """How often the state's stretches occurred with something behind them."""
        return self._count[state]

    def step(self, state: int, token: int) -> int:
        """The state of the stretch with `token` behind it; 0: it never stood there."""
        return self._next[state].get(token, 0)

    def followers(self, state: int) -> dict[int, int]:
        """The states by the tokens that followed the state's stretches."""
        return self._next[state]

    def walk(self) -> "Walk":
        """From the end of the text, as if it went on."""
        return Walk(self)


class Walk:
    """The longest end of a text that stood before, while the text is thought on by tokens that are not in it yet."""

    def __init__(self, index: SuffixIndex) -> None:
        self._index = index
        self._state = next(index.states(), 0)
        self._length = index.match(self._state).length if self._state else 0

    def step(self, token: int) -> None:
        """The text goes on with `token`."""
        index = self._index
        while self._state > 0 and not index.step(self._state, token):
            self._state = max(0, index.link(self._state))
            self._length = index.match(self._state).length if self._state else 0
        self._state = index.step(self._state, token)
        self._length = self._length + 1 if self._state else 0

    def ends(self) -> Iterator[tuple[int, int]]:
        """States and lengths of the ends that stood before, longest first."""
        state, length = self._state, self._length
        while state > 0:
            yield state, length
            state = self._index.link(state)
            length = self._index.match(state).length
