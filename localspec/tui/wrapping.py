"""Breaking text into screen lines. Widths are in cells, as `rich` measures them, offsets in characters."""

import re

from rich.cells import cell_len, split_graphemes

_CHUNK = re.compile(r"\s*\S+\s*|\s+")


def wrap(text: str, width: int) -> list[int]:
    """Where the lines of `text` (one paragraph, no newline) begin: 0 first, then each break.

    Breaks at blanks, inside a word only when the word is wider than a line. Blanks at a break stay at the end of the
    line before it, where they may hang over its edge.
    """
    if width < 1 or (len(text) <= width and text.isascii()):
        return [0]
    starts = [0]
    used = 0
    for chunk in _CHUNK.finditer(text):
        word = chunk.group()
        solid = word.rstrip()
        wide = cell_len(solid)
        if used and used + wide > width:
            starts.append(chunk.start())
            used = 0
        if wide > width:
            starts += [chunk.start() + at for at in _inside(solid, width)]
            used = cell_len(text[starts[-1] : chunk.end()])
        else:
            used += cell_len(word)
    return starts


def _inside(word: str, width: int) -> list[int]:
    """Breaks inside a word that is wider than a line."""
    breaks = []
    used = 0
    for start, _, cells in split_graphemes(word)[0]:
        if used + cells > width and used:
            breaks.append(start)
            used = 0
        used += cells
    return breaks
