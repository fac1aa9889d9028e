"""The place in the earlier text that an answer is copying, followed through edits, and the edits it makes there."""

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.engine.drafters.automaton import Match
from localspec.engine.drafters.base import Ground

ON_COURSE = 12
"""A copy of so many tokens is a copy of that place, not a turn of phrase."""

MEMORY_OF_COURSE = 48
"""Tokens an edit may write before its place is forgotten: a docstring, a few new lines."""

REACH = 24
"""Tokens of the earlier text an edit may leave out."""

LONGEST_EDIT = 8
"""Tokens replaced, and put in their place, of an edit that is worth making again: a name, a call, a type."""


@dataclass(slots=True)
class Edit:
    """`old` became `new`. `made` and `kept` count the places since where it did so again, and where `old` stayed."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    made: int = 1
    kept: int = 0

    @property
    def likely(self) -> bool:
        """It was made more often than not."""
        return self.made > self.kept


class Course:
    """The place in the earlier text that is being copied, kept through an edit.

    A copy of at least `ON_COURSE` tokens sets the course. When the text turns away, it usually comes back: behind the
    token that was replaced, before which something was put in, or after some that were left out. What was replaced by
    what is remembered, by the first token replaced.
    """

    def __init__(self) -> None:
        self._next: int | None = None
        self._off = 0
        self.edits: dict[int, Edit] = {}

    @property
    def on(self) -> int | None:
        """The position that is copied next; None behind an edit, or when nothing is being copied."""
        return self._next if self._off == 0 else None

    def follow(self, tokens: Sequence[int], match: Match | None) -> None:
        """The last of `tokens` was just written; `match` is the longest match that ends there."""
        if self._next is not None and self._off == 0 and tokens[self._next] == tokens[-1]:
            self._note_kept(tokens)
            self._next += 1
        elif match is not None and match.length >= ON_COURSE:
            self._note_edit(tokens, match)
            self._next, self._off = match.position, 0
        elif self._next is not None:
            self._off += 1
            if self._off > MEMORY_OF_COURSE:
                self._next, self._off = None, 0

    def resume(self, tokens: Sequence[int]) -> tuple[int, int, Ground] | None:
        """Where the copy goes on after an edit, how many tokens agree before that place, and why there; None when on
        course, or lost."""
        if self._next is None or self._off == 0:
            return None
        best, longest = self._best(tokens, min(self._next + REACH, len(tokens) - self._off))
        if longest:
            return best + 1, longest, "resumed"
        return (self._next + 1, 0, "replaced") if self._off == 1 else None

    def _best(self, tokens: Sequence[int], end: int) -> tuple[int, int]:
        """The place from the course's up to `end` that agrees longest with what was written since the edit began."""
        assert self._next is not None
        best, longest = self._next, 0
        for place in range(self._next, end):
            agreed = 0
            while agreed < self._off and tokens[place - agreed] == tokens[-1 - agreed]:
                agreed += 1
            if agreed > longest:
                best, longest = place, agreed
        return best, longest

    def _note_edit(self, tokens: Sequence[int], match: Match) -> None:
        """Back on course at `match`: what was left out and what was written between is an edit."""
        if self._next is None or self._off == 0:
            return
        back = match.position  # the match agrees over its whole length, so both texts are walked back from here
        agreed = 0
        while (
            agreed < self._off and back - 1 - agreed >= self._next and tokens[back - 1 - agreed] == tokens[-1 - agreed]
        ):
            agreed += 1
        old = tuple(tokens[self._next : back - agreed])
        new = tuple(tokens[len(tokens) - self._off : len(tokens) - agreed])
        if not 0 < len(old) <= LONGEST_EDIT or not 0 < len(new) <= LONGEST_EDIT:
            return
        known = self.edits.get(old[0])
        if known is not None and (known.old, known.new) == (old, new):
            known.made += 1
        else:
            self.edits[old[0]] = Edit(old, new)

    def _note_kept(self, tokens: Sequence[int]) -> None:
        edit = self.edits.get(tokens[-1])
        if edit is None or self._next is None:
            return
        if tuple(tokens[self._next : self._next + len(edit.old)]) == edit.old:
            edit.kept += 1
