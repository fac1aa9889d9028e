"""Where copied tokens stand, for people: a file and a line instead of a position."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from localspec.engine.events import Source
from localspec.engine.requests import SourceText

Piece = Callable[[int], bytes]


class Sources:
    """Names positions of what lookup has indexed: the `predictions`, each with a separator behind it, then the
    conversation, of which `prompt` is known and the answer grows. `texts` are named where they stand in the prompt."""

    def __init__(
        self,
        piece: Piece,
        prompt: Sequence[int],
        texts: Sequence[SourceText],
        predictions: Sequence[Sequence[int]] = (),
    ) -> None:
        self._piece = piece
        self._predictions = [_Lines(b"".join(map(piece, tokens)), list(map(len, map(piece, tokens))))
                             for tokens in predictions]  # fmt: skip
        self._ends = list(accumulate(len(tokens) + 1 for tokens in predictions))
        self._offset = self._ends[-1] if self._ends else 0
        pieces = [piece(token) for token in prompt]
        joined = b"".join(pieces)
        self._prompt = _Lines(joined, [len(each) for each in pieces])
        self._texts: list[tuple[int, int, SourceText]] = []
        behind = 0
        for text in texts:
            wanted = text.text.encode()
            at = joined.find(wanted, behind)
            at = joined.find(wanted) if at < 0 else at
            if at >= 0 and wanted:
                behind = at + len(wanted)
                self._texts.append((at, behind, text))
        self._answer: list[int] = []
        self._line = 1

    def wrote(self, token: int) -> None:
        """The answer goes on with `token`."""
        self._answer.append(self._line)
        self._line += self._piece(token).count(b"\n")

    def of(self, position: int) -> Source | None:
        """The place of what is indexed at `position`; None where nothing is."""
        if position < 0:
            return None
        if position < self._offset:
            number = bisect_right(self._ends, position)
            inside = position - (self._ends[number - 1] if number else 0)
            return Source("prediction", self._predictions[number].line(inside))
        position -= self._offset
        if position < len(self._prompt):
            return self._in_prompt(position)
        position -= len(self._prompt)
        return Source("answer", self._answer[position]) if position < len(self._answer) else None

    def _in_prompt(self, position: int) -> Source:
        at = self._prompt.start(position)
        for start, end, text in self._texts:
            if start <= at < end:
                return Source(text.name, self._prompt.newlines(start, at) + text.first_line)
        return Source("prompt", self._prompt.line(position))


class _Lines:
    """Lines of a text by token."""

    def __init__(self, text: bytes, lengths: Sequence[int]) -> None:
        self._text = text
        self._starts = [0, *accumulate(lengths)]

    def __len__(self) -> int:
        return len(self._starts) - 1

    def start(self, token: int) -> int:
        return self._starts[token]

    def newlines(self, start: int, end: int) -> int:
        return self._text.count(b"\n", start, end)

    def line(self, token: int) -> int:
        return 1 + self._text.count(b"\n", 0, self._starts[token])
