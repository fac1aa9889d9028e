"""A file's changes as lines: each with its heading, the lines it takes away and adds, and whether it is accepted."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from localspec.assist.diff import Hunk
from localspec.chat.visible import visible
from localspec.tui.looks import DIFF
from localspec.tui.proposal import Proposal
from localspec.tui.wrapping import wrap

TAB = "    "

NUMBERS_FROM = 90
"""Columns from which there is room for line numbers."""

NO_NEWLINE = "no newline at the end"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen: of which change, in which style, its line numbers, and what it says."""

    hunk: int
    style: str
    text: str
    old: int | None = None
    new: int | None = None
    first: bool = True
    """Not the rest of a line that was broken."""


def lines_of(number: int, hunk: Hunk, width: int) -> list[Line]:
    """A change's lines below its heading, broken to `width` cells of text."""
    made = []
    old, new = hunk.old_start, hunk.new_start
    for row in hunk.rows:
        text = visible(row.text.removesuffix("\n").removesuffix("\r").replace("\t", TAB))
        if not row.text.endswith("\n"):
            text += f"  ({NO_NEWLINE})"
        starts = [*wrap(text, width), len(text)]
        for at, (a, b) in enumerate(pairwise(starts)):
            numbers = (old if row.sign != "+" else None, new if row.sign != "-" else None)
            made.append(Line(number, row.sign, text[a:b], *(numbers if not at else (None, None)), first=not at))
        old += row.sign != "+"
        new += row.sign != "-"
    return made


def heading(hunk: Hunk) -> str:
    """Where a change stands, and how large it is."""
    count = len(hunk.old_lines)
    where = f"line {hunk.old_start}" if count == 1 else f"lines {hunk.old_start}-{hunk.old_start + count - 1}"
    return f"{where if count else 'new lines'}  +{hunk.added} -{hunk.removed}"


class DiffView(ScrollView, can_focus=True):
    """Shows a proposal; one change is the current one."""

    DEFAULT_CSS = """
    DiffView {
        height: 1fr; padding: 0 1; background: $background; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        overflow-x: hidden;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Change before", id="changes.before", show=False),
        Binding("down,j", "step(1)", "Change after", id="changes.after", show=False),
        Binding(
            "space,enter", "accept", "Accept / leave", id="changes.accept", tooltip="Accept this change, or leave it"
        ),
        Binding("pageup", "page_up", "Page up", id="changes.page_up", show=False),
        Binding("pagedown", "page_down", "Page down", id="changes.page_down", show=False),
    ]

    class Toggled(Message):
        """A change was accepted, or is not any more."""

    def __init__(self, proposal: Proposal, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.proposal = proposal
        self.current = 0
        self._lines: list[Line] = []
        self._tops: list[int] = []
        self._styles: dict[str, RichStyle] = {}
        self._base = RichStyle()

    # -- content -----------------------------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Everything anew: another width, or another theme."""
        variables = self.app.theme_variables
        self._styles = {name: Style.parse(style, variables).rich_style for name, style in DIFF.items()}
        self._base = self.rich_style
        width = self.scrollable_content_region.width
        self._numbers = width >= NUMBERS_FROM
        self._digits = max(
            (len(str(max(h.old_start, h.new_start) + len(h.rows))) for h in self.proposal.hunks), default=1
        )
        room = max(8, width - self._gutter)
        self._lines, self._tops = [], []
        for number, hunk in enumerate(self.proposal.hunks):
            self._tops.append(len(self._lines))
            self._lines += [
                Line(number, "head", heading(hunk)),
                *lines_of(number, hunk, room),
                Line(number, "blank", ""),
            ]
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    @property
    def _gutter(self) -> int:
        """Cells before a line's text: the bar, the line numbers where there is room, and the sign."""
        return 2 + (2 * (self._digits + 1) + 1 if self._numbers else 0) + 2

    @property
    def text(self) -> str:
        """What is shown, line by line."""
        return "\n".join(self._strip(y).text.rstrip() for y in range(len(self._lines)))

    # -- events ------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.redraw())

    def on_resize(self) -> None:
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        at = self.scroll_offset.y + event.y
        if at < len(self._lines):
            self.current = self._lines[at].hunk
            if self._lines[at].style == "head":
                self.action_accept()
            self.refresh()

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_step(self, step: int) -> None:
        """To another change; one that is longer than the screen is scrolled through first."""
        if not self._tops:
            return
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        end = self._end(self.current)
        if step > 0 and end > top + height:
            self.scroll_to(y=min(end - height, top + height - 1), animate=False, immediate=True)
            return
        if step < 0 and self._tops[self.current] < top:
            self.scroll_to(y=max(self._tops[self.current], top - height + 1), animate=False, immediate=True)
            return
        self.current = min(len(self._tops) - 1, max(0, self.current + step))
        first, end = self._tops[self.current], self._end(self.current)
        if first < top or end > top + height:
            # All of it if it fits, else from its heading on.
            y = first if end - first > height or first < top else end - height
            self.scroll_to(y=y, animate=False, immediate=True)
        self.refresh()

    def _end(self, number: int) -> int:
        """The line after a change, without the blank one."""
        return (self._tops[number + 1] if number + 1 < len(self._tops) else len(self._lines)) - 1

    def action_accept(self) -> None:
        if self.proposal.hunks:
            self.proposal.toggle(self.current)
            self.refresh()
            self.post_message(self.Toggled())

    # -- drawing -----------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if at >= len(self._lines):
            return Strip.blank(width, self._base)
        return self._strip(at).crop_extend(0, width, self._base).apply_style(self._base)

    def change_at(self, y: int) -> int:
        """The change that line `y` of the whole belongs to."""
        return max(0, bisect_right(self._tops, y) - 1)

    def _strip(self, at: int) -> Strip:
        line = self._lines[at]
        current, accepted = line.hunk == self.current, line.hunk in self.proposal.chosen
        if line.style == "blank":
            return Strip([Segment("")])
        bar = Segment("┃ " if current else "  ", self._styles["head"])
        if line.style == "head":
            mark = "[x] " if accepted else "[ ] "
            style = self._styles["head" if accepted else "off"] + RichStyle(reverse=current and self.has_focus)
            return Strip([bar, Segment(mark + line.text + " ", style)])
        style = self._styles[line.style if accepted else "off"]
        sign = f"{line.style} " if line.first else "  "
        return Strip([bar, *self._line_numbers(line), Segment(sign + line.text, style)])

    def _line_numbers(self, line: Line) -> list[Segment]:
        if not self._numbers:
            return []
        words = [f"{'' if number is None else number:>{self._digits}} " for number in (line.old, line.new)]
        return [Segment("".join(words) + " ", self._styles["number"])]
