"""Text that grows at its end, broken into lines, every character of it knowing its token.

The lines of finished paragraphs never change: only the last one is broken again when text arrives, so a long answer
costs no more per token than a short one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from rich.cells import split_graphemes
from rich.segment import Segment
from rich.style import Style

from localspec.chat.looks import MARKS
from localspec.chat.visible import VisibleStream
from localspec.tui.wrapping import wrap

TAB = "    "

NO_TOKEN = -1

NO_BRACKETS = ("", "")

_BRACKETS: dict[str, tuple[str, str]] = {str(look): pair for look, pair in MARKS.items()}

Overlay = tuple[int, int, Style]
"""A style over the characters from the first number up to the second."""


class Flow:
    """Spans of text (one a token), and where its lines begin. `width` is in cells.

    With `marks`, the looks are told by brackets too, one pair around neighbours of one look.
    """

    def __init__(self, width: int, *, marks: bool = False) -> None:
        self.text = ""
        self.lines: list[int] = [0]
        self.starts: list[int] = []
        self.looks: list[str] = []
        self.tokens: list[int] = []
        self._width = max(1, width)
        self._visible = VisibleStream()
        self._sources: dict[int, str] = {}
        self._paragraph = 0
        self._marks = marks
        self._open = "plain"

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def height(self) -> int:
        return len(self.lines) if self.text else 0

    @property
    def solid_height(self) -> int:
        """The lines without the empty ones at the end."""
        return bisect_left(self.lines, len(self.text.rstrip("\n")) or 1)

    def append(self, pieces: Iterable[tuple[str, str, int]]) -> int:
        """Adds (text, look, token) in order; returns the first line that may look different now."""
        parts: list[str] = []
        at = len(self.text)
        for source, look, token in pieces:
            shown = self._visible.push(source).replace("\t", TAB)
            if not shown:
                continue
            for text in self._marked(look, shown):
                at = self._add(parts, at, text, look, NO_TOKEN)
            if shown != source:
                self._sources[len(self.starts)] = source
            at = self._add(parts, at, shown, look, token)
        return self._grow("".join(parts))

    def finish(self) -> int:
        """Nothing more comes: what was held is shown, an open bracket closed."""
        parts: list[str] = []
        at = len(self.text)
        if held := self._visible.finish():
            at = self._add(parts, at, held, self.looks[-1], self.tokens[-1])
        for text in self._marked("plain", "end"):
            at = self._add(parts, at, text, "plain", NO_TOKEN)
        return self._grow("".join(parts))

    def _marked(self, look: str, shown: str) -> list[str]:
        """The brackets before a text. Blanks have none of their own, and none stays open over the end of a line."""
        if not shown.strip():
            look = "plain" if "\n" in shown else self._open
        if not self._marks or look == self._open:
            return []
        close, self._open = _BRACKETS.get(self._open, NO_BRACKETS)[1], look
        return [text for text in (close, _BRACKETS.get(look, NO_BRACKETS)[0]) if text]

    def _add(self, parts: list[str], at: int, text: str, look: str, token: int) -> int:
        self.starts.append(at)
        self.looks.append(look)
        self.tokens.append(token)
        parts.append(text)
        return at + len(text)

    def _grow(self, new: str) -> int:
        first = bisect_left(self.lines, self._paragraph)
        if not new:
            return len(self.lines)
        self.text += new
        del self.lines[first:]
        start = self._paragraph
        while True:
            end = self.text.find("\n", start)
            paragraph = self.text[start:] if end < 0 else self.text[start:end]
            self.lines += [start + at for at in wrap(paragraph, self._width)]
            self._paragraph = start
            if end < 0:
                return first
            start = end + 1

    # -- lines -------------------------------------------------------------------------------------------------------

    def bounds(self, line: int) -> tuple[int, int]:
        """The characters of a line, without the newline that ends it."""
        start = self.lines[line]
        end = self.lines[line + 1] if line + 1 < len(self.lines) else len(self.text)
        if end > start and self.text[end - 1] == "\n":
            end -= 1
        return start, end

    def line_of(self, at: int) -> int:
        """The line of a character."""
        return max(0, bisect_right(self.lines, at) - 1)

    def span_at(self, at: int) -> int:
        """The span of a character."""
        return max(0, bisect_right(self.starts, at) - 1)

    def span_bounds(self, span: int) -> tuple[int, int]:
        end = self.starts[span + 1] if span + 1 < len(self.starts) else len(self.text)
        return self.starts[span], end

    def source(self, start: int, end: int) -> str:
        """What stands behind the characters: the exact source of every whole span, what is shown of the others."""
        parts = []
        span = self.span_at(start)
        while span < len(self.starts) and self.starts[span] < end:
            a, b = self.span_bounds(span)
            whole = start <= a and b <= end
            parts.append(
                self._sources[span] if whole and span in self._sources else self.text[max(a, start) : min(b, end)]
            )
            span += 1
        return "".join(parts)

    def segments(self, line: int, styles: Mapping[str, Style], overlays: Sequence[Overlay] = ()) -> list[Segment]:
        """A line, each stretch in its look; an overlay lies over what it covers."""
        start, end = self.bounds(line)
        if start == end:
            return []
        cuts = {start, end}
        span = self.span_at(start)
        while span < len(self.starts) and self.starts[span] < end:
            cuts.add(max(start, self.starts[span]))
            span += 1
        for a, b, _ in overlays:
            cuts.update(at for at in (a, b) if start < at < end)
        edges = self._whole_characters(sorted(cuts), start, end)
        segments = []
        for a, b in pairwise(edges):
            style = styles[self.looks[self.span_at(a)]]
            for over_start, over_end, over in overlays:
                if over_start <= a < over_end:
                    style += over
            segments.append(Segment(self.text[a:b], style))
        return segments

    def _whole_characters(self, cuts: list[int], start: int, end: int) -> list[int]:
        """Cuts moved out of the middle of what is one character on the screen, however many tokens it came from."""
        text = self.text[start:end]
        if text.isascii():
            return cuts
        edges = {start + at for at, _, _ in split_graphemes(text)[0]} | {end}
        return [cut for cut in cuts if cut in edges]
