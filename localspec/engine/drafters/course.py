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

REJOINED = 3
"""Tokens that agree again behind an edit before the copy counts as going on there."""

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
        self._run = 0
        self.edits: dict[int, Edit] = {}

    @property
    def on(self) -> tuple[int, int] | None:
        """The position that is copied next, and how many tokens were copied since the last edit; None behind an edit,
        or when nothing is being copied."""
        return (self._next, self._run) if self._next is not None and self._off == 0 else None

    def expect(self, position: int) -> None:
        """The text is expected to be a copy from `position` on: trusted as one that is under way."""
        self._next, self._off, self._run = position, 0, ON_COURSE

    def follow(self, tokens: Sequence[int], match: Match | None) -> None:
        """The last of `tokens` was just written; `match` is the longest match that ends there."""
        if self._next is not None and self._off == 0 and tokens[self._next] == tokens[-1]:
            self._note_kept(tokens)
            self._next += 1
            self._run += 1
        elif match is not None and match.length >= ON_COURSE:
            self._rejoin(tokens, match.position)
        elif self._next is not None:
            self._off += 1
            if self._off > MEMORY_OF_COURSE:
                self._next, self._off = None, 0
            elif (edit := self._made_again(tokens)) is not None:
                edit.made += 1
                self._next, self._off, self._run = self._next + len(edit.old), 0, 0
            else:
                place, agreed = self._best(tokens)
                if agreed >= REJOINED:
                    self._rejoin(tokens, place + 1)

    def resume(self, tokens: Sequence[int]) -> tuple[int, int, Ground] | None:
        """Where the copy goes on after an edit, how many tokens agree before that place, and why there; None when on
        course, or lost."""
        if self._next is None or self._off == 0:
            return None
        best, longest = self._best(tokens)
        if longest:
            return best + 1, longest, "resumed"
        return (self._next + 1, 0, "replaced") if self._off == 1 else None

    def _best(self, tokens: Sequence[int]) -> tuple[int, int]:
        """The place within reach that agrees longest with what was written since the edit began, and how long."""
        assert self._next is not None
        best, longest = self._next, 0
        for place in range(self._next, min(self._next + REACH, len(tokens) - self._off)):
            agreed = 0
            while agreed < self._off and tokens[place - agreed] == tokens[-1 - agreed]:
                agreed += 1
            if agreed > longest:
                best, longest = place, agreed
        return best, longest

    def _rejoin(self, tokens: Sequence[int], position: int) -> None:
        """On course again, `position` next; what was left out and what was written between is an edit."""
        agreed = 0
        if self._next is not None and self._off > 0:
            most = min(self._off, position - self._next)
            while agreed < most and tokens[position - 1 - agreed] == tokens[-1 - agreed]:
                agreed += 1
            old = tuple(tokens[self._next : position - agreed])
            new = tuple(tokens[len(tokens) - self._off : len(tokens) - agreed])
            if 0 < len(old) <= LONGEST_EDIT and 0 < len(new) <= LONGEST_EDIT:
                known = self.edits.get(old[0])
                if known is not None and (known.old, known.new) == (old, new):
                    known.made += 1
                else:
                    self.edits[old[0]] = Edit(old, new)
        self._next, self._off, self._run = position, 0, agreed

    def _made_again(self, tokens: Sequence[int]) -> Edit | None:
        """The known edit that was made at the course's place just now."""
        assert self._next is not None
        edit = self.edits.get(tokens[self._next])
        if edit is None or self._off != len(edit.new) or tuple(tokens[-self._off :]) != edit.new:
            return None
        return edit if tuple(tokens[self._next : self._next + len(edit.old)]) == edit.old else None

    def _note_kept(self, tokens: Sequence[int]) -> None:
        edit = self.edits.get(tokens[-1])
        if edit is None or self._next is None:
            return
        if tuple(tokens[self._next : self._next + len(edit.old)]) == edit.old:
            edit.kept += 1
