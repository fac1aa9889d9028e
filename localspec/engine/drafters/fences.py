"""Code blocks by their fences: whether the answer is within one, and where the latest of the prompt begins."""

from collections.abc import Callable, Sequence

from localspec.engine.fence import Fence, fence

EARLY = 40
"""Tokens of an answer within which its first block begins when the block is what was asked for: behind a sentence of
introduction at most. Of answers that opened one at once 28 of 30 began it with the first token of the prompt's, 26 with
the first ten."""

LONGEST_LINE = 200
"""Bytes of a line that are kept to tell whether it is a fence."""


class Fences:
    """Reads the fences of a prompt and of the answer behind it, by `piece`, a token's text; without it there are none.

    A control token, whose text is empty, ends the line and whatever block a message left open. `start` is the first
    token of the latest block of the prompt that has a text and an end, None where there is none.
    """

    def __init__(self, piece: Callable[[int], bytes] | None) -> None:
        self._piece = piece
        self._opening: Fence | None = None
        self._line = b""
        self._lines = 0
        self._written = self._blocks = 0
        self.start: int | None = None

    @property
    def within(self) -> bool:
        """Whether the text stands in a block."""
        return self._opening is not None

    def begin(self, prompt: Sequence[int]) -> None:
        """A new answer begins behind `prompt`, which may have opened a block for it."""
        self._opening, self._line, self._lines = None, b"", 0
        self._written = self._blocks = 0
        self.start = opened = None
        for place, token in enumerate(prompt if self._piece is not None else ()):
            for begins in self._read(token):
                if begins:
                    opened = place + 1
                elif self._lines:
                    self.start = opened

    def wrote(self, token: int) -> bool:
        """The answer went on with `token`: whether that ended the fence line of its first block, early on."""
        if self._piece is None:
            return False
        self._written += 1
        begun = sum(self._read(token))
        self._blocks += begun
        return begun == self._blocks == 1 and self._written <= EARLY

    def _read(self, token: int) -> list[bool]:
        """The blocks that begin (true) and end behind `token`."""
        assert self._piece is not None
        text = self._piece(token) if token >= 0 else b""
        if not text:
            ended = self._end_line()
            self._opening = None
            return ended
        found = []
        first, *others = text.split(b"\n")
        self._line = (self._line + first)[:LONGEST_LINE]
        for line in others:
            found += self._end_line()
            self._line = line[:LONGEST_LINE]
        return found

    def _end_line(self) -> list[bool]:
        line, self._line = fence(self._line.decode("utf-8", "replace")), b""
        if self._opening is None:
            self._opening, self._lines = line, 0
            return [True] if line is not None else []
        if line is not None and line.closes(self._opening):
            self._opening = None
            return [False]
        self._lines += 1
        return []
