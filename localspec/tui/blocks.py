"""One turn of a chat as screen lines: who speaks, folded thoughts, the text, and how it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from localspec.chat.looks import look_of, number
from localspec.chat.splitting import Part
from localspec.chat.turns import Turn
from localspec.tui.flow import NO_TOKEN, Flow, Overlay

GUTTER = 2
"""Cells left of every line, where a turn's bar stands."""

Section = Literal["thoughts", "text"]
RowKind = Literal["head", "fold", "thought", "text", "markdown", "foot", "blank"]


@dataclass(frozen=True, slots=True)
class Drawing:
    """What blocks are drawn with. `styles` holds the looks and the names used below; `width` is in cells, without the
    gutter; `marks`: the looks are told by brackets."""

    width: int
    styles: Mapping[str, Style]
    marks: bool = False
    code_theme: str = "ansi_dark"


@dataclass(frozen=True, slots=True)
class Place:
    """A token in a block: a span of one of its flows."""

    section: Section
    span: int


class Block:
    """Draws a turn. Lines are made when they are asked for and kept until they change."""

    def __init__(self, turn: Turn, drawing: Drawing, name: str = "") -> None:
        self.turn = turn
        self.name = name
        self.folded = True
        self.rejected = False
        self.markdown = False
        self.draw(drawing)

    def draw(self, drawing: Drawing) -> None:
        """Everything anew: another width, another theme, another view."""
        self.drawing = drawing
        self._strips: dict[int, Strip] = {}
        self.flows: dict[Section, Flow] = {
            "thoughts": Flow(drawing.width, marks=drawing.marks),
            "text": Flow(drawing.width, marks=drawing.marks),
        }
        self._rendered: list[list[Segment]] | None = None
        self._taken = 0
        self._rejected_until = 0
        if self.turn.parts:
            self.grow()
        else:
            look = "user" if self.turn.role == "user" else "plain"
            self.flows["thoughts"].append([(self.turn.thoughts, "thought", NO_TOKEN)])
            self.flows["text"].append([(self.turn.text, look, NO_TOKEN)])
        if self.finished:
            self.finish()

    @property
    def finished(self) -> bool:
        return self.turn.role != "assistant" or self.turn.reason is not None or self.turn.broken

    def grow(self) -> None:
        """Draws the parts that came to the turn since the last call."""
        text: list[tuple[str, str, int]] = []
        thoughts: list[tuple[str, str, int]] = []
        for index in range(self._taken, len(self.turn.parts)):
            part = self.turn.parts[index]
            look = look_of(part.token.kind, part.token.drafter)
            into = thoughts if part.thought and not part.text else text
            if self.rejected and look == "resampled":
                into += [(guess, "rejected", NO_TOKEN) for guess in (self._refused(index),) if guess]
            if part.thought:
                thoughts.append((part.thought, look, index))
            if part.text:
                text.append((part.text, look, index))
        self._taken = len(self.turn.parts)
        before = self._above_text()
        self.flows["thoughts"].append(thoughts)
        first = self.flows["text"].append(text)
        # The rows above may have moved, the lines below the first changed one are others now.
        if self._above_text() != before or thoughts:
            self._strips.clear()
        else:
            self._forget(before + first)

    def finish(self) -> None:
        """The turn has ended: what was held back is drawn, and how it ended."""
        for flow in self.flows.values():
            flow.finish()
        self._strips.clear()

    def touch(self) -> None:
        """The lines are drawn again, at the same breaks."""
        self._strips.clear()

    def _refused(self, index: int) -> str:
        """The guesses that the resampled token at `index` stands in place of."""
        from localspec.chat.turns import cycle_of

        found = cycle_of(self.turn, index)
        return found.refused if found else ""

    def _forget(self, row: int) -> None:
        for at in [at for at in self._strips if at >= row]:
            del self._strips[at]

    # -- rows --------------------------------------------------------------------------------------------------------

    def _sections(self) -> list[tuple[RowKind, int]]:
        thoughts = self.flows["thoughts"]
        body: tuple[RowKind, int] = (
            "text",
            self.flows["text"].solid_height if self.finished else self.flows["text"].height,
        )
        if self.markdown:
            body = ("markdown", len(self._markdown_lines()))
        return [
            ("head", 1),
            ("fold", 1 if thoughts else 0),
            ("thought", 0 if self.folded else thoughts.height),
            body,
            ("foot", 1 if self._foot() else 0),
            ("blank", 1),
        ]

    @property
    def height(self) -> int:
        return sum(count for _, count in self._sections())

    def _above_text(self) -> int:
        thoughts = self.flows["thoughts"]
        return 1 + (0 if not thoughts else 1 if self.folded else 1 + thoughts.height)

    def row(self, y: int) -> tuple[RowKind, int]:
        """What stands at row `y` of the block: the kind of row, and which one of its kind."""
        for kind, count in self._sections():
            if y < count:
                return kind, y
            y -= count
        return "blank", 0

    def row_of(self, place: Place) -> int:
        """The row where a token begins; its thoughts must be unfolded."""
        flow = self.flows[place.section]
        line = flow.line_of(flow.starts[place.span])
        return (2 if place.section == "thoughts" else self._above_text()) + line

    def overlay_of(self, place: Place, style: Style) -> Overlay:
        start, end = self.flows[place.section].span_bounds(place.span)
        return start, end, style

    def strip(
        self, y: int, overlays: Mapping[Section, Sequence[Overlay]] | None = None, *, current: bool = False
    ) -> Strip:
        """Row `y` as it is shown, gutter included; only rows without overlays are kept."""
        plain = not overlays and not current
        if plain and (kept := self._strips.get(y)) is not None:
            return kept
        kind, index = self.row(y)
        segments = self._segments(kind, index, overlays or {})
        strip = Strip([self._bar(kind, current), *segments])
        if plain:
            self._strips[y] = strip
        return strip

    def _bar(self, kind: RowKind, current: bool) -> Segment:
        styles = self.drawing.styles
        if kind == "blank":
            return Segment("  ")
        if current:
            return Segment("┃ ", styles["current"])
        return Segment("▎ " if self.turn.role == "user" else "  ", styles["bar"])

    def _segments(self, kind: RowKind, index: int, overlays: Mapping[Section, Sequence[Overlay]]) -> list[Segment]:
        styles = self.drawing.styles
        match kind:
            case "head":
                who = "you" if self.turn.role == "user" else self.name or "answer"
                return [Segment(who, styles["who"])]
            case "fold":
                return [Segment(self._fold_line(), styles["muted"])]
            case "thought":
                return self.flows["thoughts"].segments(index, styles, overlays.get("thoughts", ()))
            case "text":
                return self.flows["text"].segments(index, styles, overlays.get("text", ()))
            case "markdown":
                return self._markdown_lines()[index]
            case "foot":
                return [Segment(self._foot(), styles["muted"])]
        return []

    def _fold_line(self) -> str:
        tokens = sum(1 for part in self.turn.parts if part.thought)
        count = f"{tokens} tokens" if tokens else f"{len(self.turn.thoughts)} characters"
        return f"{'▸' if self.folded else '▾'} thoughts, {count}"

    def _foot(self) -> str:
        """How the turn ended, when that is worth a word."""
        turn = self.turn
        if turn.role != "assistant":
            return ""
        if turn.broken:
            return "✗ broken off: the engine ended here"
        ends = {
            "cancelled": "■ stopped",
            "max_tokens": "■ cut at the longest answer",
            "context_full": "■ cut: the context is full",
        }
        end = ends.get(turn.reason or "", "")
        stats = turn.stats
        if stats is None or stats.tokens_per_s is None:
            return end
        figures = [f"{len(turn.parts)} tokens", f"{stats.tokens_per_s:.1f} tokens/s"]
        if stats.speedup is not None:
            figures.append(f"{number(stats.speedup, '.2f')}x plain")
        return " · ".join([*([end] if end else []), *figures])

    def _markdown_lines(self) -> list[list[Segment]]:
        if self._rendered is None:
            from localspec.tui.markdown import render

            self._rendered = render(self.turn.text, self.drawing.width, self.drawing.code_theme)
        return self._rendered

    # -- text --------------------------------------------------------------------------------------------------------

    def row_range(self, y: int, start: int, end: int | None) -> tuple[Flow, int, int] | str:
        """A stretch of a row (in characters of the strip, None: to its end): where it is in a flow, or what it says."""
        kind, index = self.row(y)
        first, last = max(0, start - GUTTER), None if end is None else max(0, end - GUTTER)
        if kind not in ("text", "thought"):
            return "".join(segment.text for segment in self._segments(kind, index, {}))[first:last]
        flow = self.flows["text" if kind == "text" else "thoughts"]
        a, b = flow.bounds(index)
        return flow, min(b, a + first), b if last is None else min(b, a + last)

    def part(self, place: Place) -> tuple[int, Part] | None:
        """The token at a place, and its number in the turn."""
        token = self.flows[place.section].tokens[place.span]
        return (token, self.turn.parts[token]) if token >= 0 else None
