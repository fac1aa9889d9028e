"""Words that an answer writes in place of others: a name is renamed wherever it stands.

The same name is other tokens behind a blank, a bracket or at the beginning of a line, so that an edit made in one place
says nothing of the next in tokens. By its text it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

LONGEST_WORD = 12
"""Tokens of a word; a longer one is no name."""


@dataclass(slots=True)
class Tried:
    """How often an edit was made where it could be, since the first time (which counts), and how often not."""

    made: int = 1
    kept: int = 0

    @property
    def likely(self) -> bool:
        """It was made more often than not."""
        return self.made > self.kept


@dataclass(frozen=True, slots=True)
class Edit:
    """The tokens `old` became `new`. The edits of one renamed word share what came of them."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    tried: Tried = field(default_factory=Tried)

    @property
    def common(self) -> int:
        """Tokens that both begin with: the one behind them tells which was written."""
        return _alike(self.old, self.new)


class Renames:
    """The words that were renamed so far; `piece` is the text of a token, `cut` the tokens of a text."""

    def __init__(self, piece: Callable[[int], bytes], cut: Callable[[str], Sequence[int]]) -> None:
        self._piece, self._cut = piece, cut
        self._known: dict[str, tuple[str, Tried]] = {}
        self._spelled: dict[str, tuple[int, ...] | None] = {}

    def learn(
        self, before: Sequence[int], old: Sequence[int], new: Sequence[int], behind: Sequence[int]
    ) -> Tried | None:
        """Between `before` and `behind`, `new` was written for `old`. Where that changed one word it is remembered, and
        what came of it is returned. A word that may go on beyond what is given here is left alone."""
        given = self._text(_last_text(before)), self._text(_first_text(behind))
        was, now = self._text(old), self._text(new)
        left, was, now = _same_start(given[0], was, now)
        right, was, now = _same_end(given[1], was, now)
        head, tail = _word_end(left), _word_start(right)
        if (given[0] and head == left) or (given[1] and tail == right):
            return None
        was, now = head + was + tail, head + now + tail
        if was == now or not (_is_word(was) and _is_word(now)):
            return None
        known = self._known.get(was)
        if known is not None and known[0] == now:
            known[1].made += 1
            return known[1]
        # Where it was kept before, another new name has to show that it is meant.
        tried = Tried(kept=known[1].kept if known is not None else 0)
        self._known[was] = now, tried
        return tried

    def at(self, tokens: Sequence[int], position: int) -> Edit | None:
        """The edit of a renamed word that begins in the token at `position`."""
        if not self._known:
            return None
        word, end = self._text(tokens[position : position + 1]), position + 1
        lead = "".join(takewhile(lambda letter: not _is_letter(letter), word))
        word = word[len(lead) :]
        if not word or (not lead and position > 0 and _word_end(self._text(tokens[position - 1 : position]))):
            return None
        while _is_word(word) and end < len(tokens):
            more = self._text(tokens[end : end + 1])
            if not _word_start(more):
                break
            if end - position >= LONGEST_WORD:
                return None
            word, end = word + more, end + 1
        name = _word_start(word)
        known = self._known.get(name)
        spelled = self._spell(lead + known[0] + word[len(name) :]) if known is not None else None
        if known is None or spelled is None:
            return None
        return Edit(tuple(tokens[position:end]), spelled, known[1])

    def _spell(self, text: str) -> tuple[int, ...] | None:
        """The tokens of `text`, without the blank that some vocabularies put before any text; None where it cannot be
        had without."""
        if text not in self._spelled:
            cut = tuple(self._cut(text))
            self._spelled[text] = next((part for part in (cut, cut[1:]) if self._text(part) == text), None)
        return self._spelled[text]

    def _text(self, tokens: Sequence[int]) -> str:
        return b"".join(self._piece(token) for token in tokens if token >= 0).decode("utf-8", "replace")


def _alike(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _last_text(tokens: Sequence[int]) -> Sequence[int]:
    """The tokens behind the last that is none, where another text ended."""
    return tokens[next((at + 1 for at in range(len(tokens) - 1, -1, -1) if tokens[at] < 0), 0) :]


def _first_text(tokens: Sequence[int]) -> Sequence[int]:
    """Those before the first that is none."""
    return tokens[: next((at for at, token in enumerate(tokens) if token < 0), len(tokens))]


def _is_letter(letter: str) -> bool:
    """Whether a name may have it."""
    return letter.isalnum() or letter == "_"


def _is_word(text: str) -> bool:
    return bool(text) and all(map(_is_letter, text))


def _word_start(text: str) -> str:
    """The letters that `text` begins with."""
    return "".join(takewhile(_is_letter, text))


def _word_end(text: str) -> str:
    """The letters that `text` ends with."""
    return text[len(text) - len(_word_start(text[::-1])) :]


def _same_start(left: str, was: str, now: str) -> tuple[str, str, str]:
    """`left` with what `was` and `now` both begin with, and the rest of them."""
    same = _alike(was, now)
    return left + was[:same], was[same:], now[same:]


def _same_end(right: str, was: str, now: str) -> tuple[str, str, str]:
    """The same of their ends, before `right`."""
    same = _alike(was[::-1], now[::-1])
    return was[len(was) - same :] + right, was[: len(was) - same], now[: len(now) - same]
