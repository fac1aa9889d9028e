"""Prompt lookup: what followed the last time these tokens stood here, proposed again.

The index is a suffix automaton (Blumer et al. 1985) over the conversation's tokens, as in SAM Decoding (Hu et al.
2024): it grows by a token in amortised constant time, and always knows the longest end of the text that stood there
before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from localspec.engine.drafters.base import Draft, Ground

MIN_MATCH = 2
"""A single token recurs everywhere: what followed it says next to nothing."""

ON_COURSE = 12
"""A copy of so many tokens is a copy of that place, not a turn of phrase."""

MEMORY_OF_COURSE = 12
"""Tokens an edit may write before its place is forgotten."""

REACH = 12
"""Tokens of the earlier text an edit may leave out."""

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
        self._last = 0
        for token in tokens:
            self.extend(token)

    def extend(self, token: int) -> None:
        """Append `token`."""
        edges, links, lengths, latest = self._next, self._link, self._length, self._latest
        # Only now do the ends of the text so far count as occurrences: until here they were what was looked up.
        here = len(self.tokens)
        state = links[self._last]
        for _ in range(_REFRESHED):
            if state <= 0:
                break
            latest[state] = here
            state = links[state]

        self.tokens.append(token)
        whole = len(edges)
        edges.append({})
        links.append(0)
        lengths.append(here + 1)
        latest.append(here + 1)
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
        links[known] = links[whole] = part
        while state >= 0 and edges[state].get(token) == known:
            edges[state][token] = part
            state = links[state]

    def matches(self) -> Iterator[Match]:
        """Earlier occurrences of ends of the text: the longest end that has one, then ever shorter ones that occur at
        further places, each with its latest occurrence."""
        state = self._link[self._last]
        while state > 0:
            yield Match(self._latest[state], self._length[state])
            state = self._link[state]


class Course:
    """The place in the earlier text that is being copied, kept through an edit of a few tokens.

    A copy of at least `ON_COURSE` tokens sets the course. When the text turns away, it usually comes back: behind the
    token that was replaced, before which something was put in, or after some that were left out.
    """

    def __init__(self) -> None:
        self._next: int | None = None
        self._off = 0

    def follow(self, tokens: Sequence[int], match: Match | None) -> None:
        """The last of `tokens` was just written; `match` is the longest match that ends there."""
        if self._next is not None and self._off == 0 and tokens[self._next] == tokens[-1]:
            self._next += 1
        elif match is not None and match.length >= ON_COURSE:
            self._next, self._off = match.position, 0
        elif self._next is not None:
            self._off += 1
            if self._off > MEMORY_OF_COURSE:
                self._next = None

    def resume(self, tokens: Sequence[int]) -> tuple[int, Ground] | None:
        """Where the copy goes on after an edit, and why there; None when on course, or lost."""
        if self._next is None or self._off == 0:
            return None
        best, longest = self._next, 0
        for place in range(self._next, min(self._next + REACH, len(tokens) - self._off)):
            # Agreement counts back over what was written since the edit began.
            agreed = 0
            while agreed < self._off and tokens[place - agreed] == tokens[-1 - agreed]:
                agreed += 1
            if agreed > longest:
                best, longest = place, agreed
        if longest:
            return best + 1, "resumed"
        return (self._next + 1, "replaced") if self._off == 1 else None


class Lookup:
    """Drafts by the longest match, of equally long ones by the latest: the newest version of an edited text counts.

    Behind an edit in a long copy the match is short and may be anywhere; there the copy is resumed where it was left.
    Proposes nothing when fewer than `min_match` tokens match, and nothing past one of `ends`, which ends the answer.
    Costs microseconds, native memory none.
    """

    name: Literal["lookup"] = "lookup"

    def __init__(self, min_match: int = MIN_MATCH, ends: frozenset[int] = frozenset()) -> None:
        self._min_match, self._ends = min_match, ends
        self._index = SuffixIndex()
        self._course = Course()

    def begin(self, tokens: Sequence[int]) -> None:
        """Index `tokens`; when they continue what is indexed already only the rest is added."""
        known = len(self._index.tokens)
        if list(tokens[:known]) == self._index.tokens:
            tokens = tokens[known:]
        else:
            self._index = SuffixIndex()
        for token in tokens:
            self._index.extend(token)
        self._course = Course()

    def draft(self, history: Sequence[int], limit: int) -> Draft:
        """What followed the longest match, or follows the edit of a copy; at most `limit` tokens. A match that reaches
        to the end of the text goes on into the draft itself, so that a repetition is continued."""
        if limit <= 0:
            return Draft(())
        tokens = self._index.tokens
        match = next(self._index.matches(), None)
        length = match.length if match is not None else 0
        if length < ON_COURSE and (resumed := self._course.resume(tokens)) is not None:
            position, ground = resumed
            return Draft(self._from(position, limit), match_length=length, ground=ground)
        if match is None or length < self._min_match:
            return Draft(())
        return Draft(self._from(match.position, limit), match_length=length)

    def _from(self, position: int, limit: int) -> list[int]:
        draft = self._index.tokens[position : position + limit]
        period = len(draft)
        while len(draft) < limit:
            draft.append(draft[-period])
        end = next((i for i, token in enumerate(draft) if token in self._ends), limit)
        return draft[: end + 1]

    def accept(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._index.extend(token)
            self._course.follow(self._index.tokens, next(self._index.matches(), None))

    def close(self) -> None:
        self._index = SuffixIndex()
        self._course = Course()
