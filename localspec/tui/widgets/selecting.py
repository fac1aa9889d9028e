"""What a mouse selection in the transcript looks like, and the exact text it stands for. No widget here."""

from collections.abc import Sequence
from itertools import pairwise

from rich.style import Style as RichStyle
from textual.strip import Strip

from localspec.tui.flow import Flow


def source_of(rows: Sequence[tuple[Flow, int, int] | str]) -> str:
    """The source of selected rows: neighbours of one flow are one stretch of it, wrapped lines and all."""
    pieces: list[str] = []
    stretch: tuple[Flow, int, int] | None = None
    for row in (*rows, ""):
        if not isinstance(row, str) and stretch is not None and stretch[0] is row[0]:
            stretch = (row[0], stretch[1], row[2])
            continue
        pieces += [stretch[0].source(*stretch[1:])] if stretch is not None else []
        stretch = None if isinstance(row, str) else row
        pieces += [row] if isinstance(row, str) else []
    return "\n".join(pieces[:-1])


def selected(strip: Strip, span: tuple[int, int], style: RichStyle) -> Strip:
    """The strip with the characters of the span in the selection's style."""
    start, end = span
    end = len(strip.text) if end == -1 else end
    segments = []
    at = 0
    for segment in strip:
        text = segment.text
        cuts = sorted({0, len(text), *(cut - at for cut in (start, end) if 0 < cut - at < len(text))})
        for a, b in pairwise(cuts):
            inside = start <= at + a < end
            base = segment.style or RichStyle()
            segments.append(type(segment)(text[a:b], base + style if inside else base))
        at += len(text)
    return Strip(segments)
