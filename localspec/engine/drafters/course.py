"""The place in the earlier text that an answer is copying, followed through edits, and the edits it makes there."""

from collections.abc import Iterator, Sequence

from localspec.engine.drafters.automaton import Match
from localspec.engine.drafters.base import Ground
from localspec.engine.drafters.renames import LONGEST_WORD, Edit, Renames, Tried

ON_COURSE = 12
"""A copy of so many tokens is a copy of that place, not a turn of phrase."""

MEMORY_OF_COURSE = 48
"""Tokens an edit may write before its place is forgotten: a docstring, a few new lines."""

REACH = 24
"""Tokens of the earlier text an edit may leave out."""

LONGEST_COMMON = 3
"""Tokens that a name and its new name may both begin with."""

REJOINED = 3
"""Tokens that agree again behind an edit before the copy counts as going on there."""

LONGEST_EDIT = 8
"""Tokens replaced, and put in their place, of an edit that is worth making again: a name, a call, a type."""


class Course:
    """The place in the earlier text that is being copied, kept through an edit.

    A copy of at least `ON_COURSE` tokens sets the course. When the text turns away, it usually comes back: behind the
    token that was replaced, before which something was put in, or after some that were left out. What was replaced by
    what is remembered, by the first token replaced, and as a word where `renames` can read it.
    """

    def __init__(self, renames: Renames | None = None) -> None:
        self._renames = renames
        self._next: int | None = None
        self._off = 0
        self._run = 0
        self._edits: dict[int, Edit] = {}

    @property
    def on(self) -> tuple[int, int] | None:
        """The position that is copied next, and how many tokens were copied since the last edit; None behind an edit,
        or when nothing is being copied."""
        return (self._next, self._run) if self._next is not None and self._off == 0 else None

    def edit_at(self, tokens: Sequence[int], position: int) -> Edit | None:
        """The known edit of the tokens that stand at `position`."""
        edit = self._edits.get(tokens[position])
        if edit is not None and tuple(tokens[position : position + len(edit.old)]) == edit.old:
            return edit
        return self._renames.at(tokens, position) if self._renames is not None and tokens[position] >= 0 else None

    def expect(self, position: int) -> None:
        """The text is expected to be a copy from `position` on: trusted as one that is under way."""
        self._next, self._off, self._run = position, 0, ON_COURSE

    def follow(self, tokens: Sequence[int], match: Match | None) -> None:
        """The last of `tokens` was just written; `match` is the longest match that ends there."""
        if self._next is not None and self._off == 0 and tokens[self._next] == tokens[-1]:
            for kept in self._decided(tokens):
                kept.tried.kept += 1
            self._next += 1
            self._run += 1
        elif match is not None and match.length >= ON_COURSE:
            self._rejoin(tokens, match.position)
        elif self._next is not None:
            self._off += 1
            if self._off > MEMORY_OF_COURSE:
                self._next, self._off = None, 0
            elif (edit := self._made_again(tokens)) is not None:
                edit.tried.made += 1
                # A known edit is no break: what comes behind it stands wherever the edit does.
                self._next, self._off = self._next - edit.common + len(edit.old), 0
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
        return (self._next + 1, 0, "replaced") if self._off == 1 and tokens[self._next] >= 0 else None

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
                known = self._edits.get(old[0])
                if known is not None and (known.old, known.new) == (old, new):
                    known.tried.made += 1
                else:
                    tried = self._learn_word(tokens, old, new, position - agreed)
                    self._edits[old[0]] = Edit(old, new, tried or Tried())
        self._next, self._off, self._run = position, 0, agreed

    def _learn_word(
        self, tokens: Sequence[int], old: tuple[int, ...], new: tuple[int, ...], behind: int
    ) -> Tried | None:
        """The text before position `behind` was edited: what is known of that as a word."""
        if self._renames is None:
            return None
        start = behind - len(old)
        before = tokens[max(0, start - LONGEST_WORD) : start]
        return self._renames.learn(before, old, new, tokens[behind : behind + LONGEST_WORD])

    def _decided(self, tokens: Sequence[int]) -> Iterator[Edit]:
        """The known edits of which the token at the course's place tells whether they were made: all before it is the
        same either way."""
        assert self._next is not None
        for common in range(min(self._next, LONGEST_COMMON) + 1 if self._renames is not None else 1):
            edit = self.edit_at(tokens, self._next - common)
            if edit is not None and edit.common == common:
                yield edit

    def _made_again(self, tokens: Sequence[int]) -> Edit | None:
        """The known edit that was made at the course's place just now."""
        written = tuple(tokens[-self._off :])
        return next((edit for edit in self._decided(tokens) if written == edit.new[edit.common :]), None)
