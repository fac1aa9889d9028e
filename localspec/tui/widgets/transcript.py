"""The transcript: every turn of the chat as lines, not as widgets. Finished blocks never change; the tail grows."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import ClassVar

from rich.style import Style as RichStyle
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style

from localspec.chat.turns import Turn
from localspec.tui import looks
from localspec.tui.blocks import GUTTER, Block, Drawing, Place, Section
from localspec.tui.flow import Overlay
from localspec.tui.widgets.cursor import Cursor, Found, Move
from localspec.tui.widgets.selecting import selected, source_of

MAX_WIDTH = 110
"""Longer lines are hard to read, however wide the terminal is."""

STYLES = {
    **looks.STYLES,
    "user": "$foreground",
    "bar": "$primary",
    "current": "bold $accent",
}


class Transcript(ScrollView, can_focus=True):
    """Blocks of lines. Follows the end while it is in view; scrolling up stops that, scrolling down to it resumes."""

    DEFAULT_CSS = """
    Transcript { height: 1fr; padding: 0 1; background: $background; scrollbar-size-vertical: 1;
        scrollbar-gutter: stable; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "cursor('up')", "Line up", id="transcript.up", show=False),
        Binding("down", "cursor('down')", "Line down", id="transcript.down", show=False),
        Binding("left", "cursor('left')", "Token back", id="transcript.left", show=False),
        Binding("right", "cursor('right')", "Token on", id="transcript.right", show=False),
        Binding("left_square_bracket", "cursor('cycle_back')", "Cycle back", id="transcript.cycle_back", show=False),
        Binding("right_square_bracket", "cursor('cycle_on')", "Cycle on", id="transcript.cycle_on", show=False),
        Binding("k", "turn(-1)", "Message before", id="transcript.turn_back", show=False),
        Binding("j", "turn(1)", "Message after", id="transcript.turn_on", show=False),
        Binding("pageup", "page_up", "Page up", id="transcript.page_up", show=False),
        Binding("pagedown", "page_down", "Page down", id="transcript.page_down", show=False),
        Binding("home", "scroll_home", "To the top", id="transcript.top", show=False),
        Binding("end", "scroll_end", "To the end", id="transcript.end", show=False),
        Binding("m", "markdown", "Markdown", id="transcript.markdown"),
        Binding("x", "rejected", "Rejected", id="transcript.rejected"),
        Binding("t", "thoughts", "Thoughts", id="transcript.thoughts", show=False),
        Binding("e", "screen.edit", "Edit", id="transcript.edit"),
        Binding("r", "screen.regenerate", "Again", id="transcript.regenerate"),
        Binding("g", "screen.go_on", "Go on", id="transcript.go_on", show=False),
        Binding("y", "screen.copy_answer", "Copy", id="transcript.copy"),
        Binding("c", "screen.copy_code", "Code", id="transcript.copy_code"),
        Binding("p", "screen.use_code", "Into the prompt", id="transcript.use_code", show=False),
        Binding("E", "screen.edit_code", "Change it in its file", id="transcript.edit_code", show=False),
        Binding("d", "screen.changes", "Changes of the last edit", id="transcript.changes", show=False),
        Binding("u", "screen.undo_edit", "Undo the last edit", id="transcript.undo_edit", show=False),
        Binding("Y", "screen.copy_chat", "Copy the chat", id="transcript.copy_chat", show=False),
        Binding("slash", "screen.find", "Find", id="transcript.find", show=False),
    ]

    class CursorMoved(Message):
        """The token cursor is somewhere else, or nowhere (`turn` None)."""

        def __init__(self, turn: Turn | None, token: int | None) -> None:
            super().__init__()
            self.turn = turn
            self.token = token

    class FollowingChanged(Message):
        """The end came into view, or left it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.blocks: list[Block] = []
        self.following = True
        self.marks = False
        self._ends: list[int] = []
        self._cursor = Cursor()
        self._found: Sequence[Found] = ()
        self._found_now = -1
        self.needle = ""
        self._styles: dict[str, RichStyle] = {}
        self._base = RichStyle()
        self._drawing = Drawing(80, self._styles)

    # -- content -----------------------------------------------------------------------------------------------------

    def sync(self, turns: Sequence[Turn], name: str = "") -> None:
        """Shows these turns: what is shown already stays as it is, the rest is drawn, and the end is in view."""
        same = 0
        while same < min(len(turns), len(self.blocks)) and self.blocks[same].turn is turns[same]:
            same += 1
        if self._cursor.block is not None and self._cursor.block >= same:
            self._cursor = Cursor()
            self._tell()
        self.find("")
        self.blocks[same:] = [Block(turn, self._drawing, name) for turn in turns[same:]]
        self.following = True
        self._measure(same)

    def grown(self) -> None:
        """The last turn has more parts."""
        self.blocks[-1].grow()
        self._measure(len(self.blocks) - 1)

    def changed(self, turn: Turn) -> None:
        """A turn has come to its end, or goes on."""
        for index, block in enumerate(self.blocks):
            if block.turn is turn:
                block.draw(self._drawing)
                self._measure(index)

    @property
    def text(self) -> str:
        """What is shown, line by line, without the gutter."""
        strips = (self._strip(y) for y in range(self.virtual_size.height))
        return "\n".join(strip.text[GUTTER:].rstrip() for strip in strips)

    def redraw(self) -> None:
        """Every block anew: the width, the theme or the way looks are told has changed."""
        self._styles = {name: Style.parse(style, self.app.theme_variables).rich_style for name, style in STYLES.items()}
        muted = looks.muted(self.app.current_theme, self.app.theme_variables)
        self._styles |= {"muted": muted, "thought": muted, "who": muted + RichStyle(bold=True)}
        self._base = self.rich_style
        theme = self.app.current_theme
        code_theme = looks.CODE_THEMES[(theme.ansi, theme.dark)]
        width = max(1, min(MAX_WIDTH, self.scrollable_content_region.width - GUTTER))
        self._drawing = Drawing(width, self._styles, self.marks, code_theme)
        for block in self.blocks:
            block.draw(self._drawing)
        self._measure()

    def _measure(self, first: int = 0) -> None:
        """Where each block ends, from block `first` on; and the end in view again when it was."""
        del self._ends[first:]
        start = self._ends[-1] if self._ends else 0
        self._ends += list(accumulate((block.height for block in self.blocks[first:]), initial=start))[1:]
        height = self._ends[-1] if self._ends else 0
        self._resize(Size(self._drawing.width + GUTTER, height))
        if self.following:
            self.scroll_end(animate=False, immediate=True, x_axis=False)
        self.refresh()

    def _resize(self, size: Size) -> None:
        """Another height. Textual lays out the whole screen anew for that; a streaming answer changes it ten times a
        second and nothing else, so while the scrollbar is there only that is told."""
        if self.show_vertical_scrollbar and size.height > self.scrollable_content_region.height:
            self.set_reactive(ScrollView.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        else:
            self.virtual_size = size

    # -- events ------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.redraw())
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        if min(MAX_WIDTH, self.scrollable_content_region.width - GUTTER) != self._drawing.width:
            self.redraw()
        elif self.following:
            self.scroll_end(animate=False, immediate=True, x_axis=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        following = new_value >= self.max_scroll_y
        if following != self.following:
            self.following = following
            self.post_message(self.FollowingChanged())

    def on_blur(self) -> None:
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    # -- drawing -----------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        base = self._base
        if at >= (self._ends[-1] if self._ends else 0):
            return Strip.blank(width, base)
        strip = self._strip(at)
        if (selection := self.text_selection) is not None and (span := selection.get_span(at)) is not None:
            strip = selected(strip, span, self.screen.get_component_rich_style("screen--selection"))
        return strip.crop_extend(0, width, base).apply_style(base).apply_offsets(0, at)

    def block_at(self, y: int) -> tuple[int, int]:
        """The block that line `y` of the whole belongs to, and the row in it."""
        index = bisect_right(self._ends, y)
        return index, y - (self._ends[index - 1] if index else 0)

    def top_of(self, index: int) -> int:
        """The first line of a block."""
        return self._ends[index - 1] if index else 0

    def _strip(self, y: int) -> Strip:
        index, row = self.block_at(y)
        block = self.blocks[index]
        current = self.has_focus and self._cursor.block == index
        overlays = self._overlays(index) if (current or self._found) else None
        return block.strip(row, overlays, current=current)

    def _overlays(self, index: int) -> dict[Section, list[Overlay]]:
        overlays: dict[Section, list[Overlay]] = {}
        found, now = RichStyle(reverse=True), RichStyle(reverse=True, bold=True, underline=True)
        for number, hit in enumerate(self._found):
            if hit.block == index:
                style = now if number == self._found_now else found
                overlays.setdefault(hit.section, []).append((hit.start, hit.end, style))
        if self._cursor.block == index and self._cursor.place is not None:
            place = self._cursor.place
            start, end = self.blocks[index].flows[place.section].span_bounds(place.span)
            overlays.setdefault(place.section, []).append((start, end, RichStyle(reverse=True)))
        return overlays

    # -- cursor ------------------------------------------------------------------------------------------------------

    @property
    def current(self) -> Block | None:
        """The block the cursor is in; the last one without a cursor."""
        if not self.blocks:
            return None
        return self.blocks[self._cursor.block] if self._cursor.block is not None else self.blocks[-1]

    @property
    def pointed(self) -> tuple[Turn, int] | None:
        """The token under the cursor: its answer, and its number there."""
        block, place = self.current, self._cursor.place
        found = block.part(place) if block is not None and place is not None else None
        return (block.turn, found[0]) if block is not None and found is not None else None

    def action_turn(self, step: int) -> None:
        """To the message before or after."""
        if self.blocks:
            at = self._cursor.block
            last = len(self.blocks) - 1
            self._go(Cursor(min(last, max(0, at + step)) if at is not None else last))

    def action_cursor(self, move: Move) -> None:
        """The token cursor one step on; without one it appears at the end of the last answer."""
        self._go(self._cursor.moved(self.blocks, move))

    def _go(self, cursor: Cursor) -> None:
        self._cursor = cursor
        if cursor.block is not None:
            top, block = self.top_of(cursor.block), self.blocks[cursor.block]
            self._bring_into_view(top + (block.row_of(cursor.place) if cursor.place else 0))
        self.refresh()
        self._tell()

    def _bring_into_view(self, line: int) -> None:
        height = self.scrollable_content_region.height
        if line < self.scroll_offset.y:
            self.scroll_to(y=line, animate=False, immediate=True)
        elif line >= self.scroll_offset.y + height:
            self.scroll_to(y=line - height + 1, animate=False, immediate=True)

    def _tell(self) -> None:
        cursor = self._cursor
        if cursor.block is None or cursor.block >= len(self.blocks):
            self.post_message(self.CursorMoved(None, None))
            return
        block = self.blocks[cursor.block]
        found = block.part(cursor.place) if cursor.place else None
        self.post_message(self.CursorMoved(block.turn, found[0] if found else None))

    def leave(self) -> None:
        """No cursor any more."""
        self._go(Cursor())

    def on_click(self, event: events.Click) -> None:
        index, row = self.block_at(self.scroll_offset.y + event.y)
        if index >= len(self.blocks):
            return
        block = self.blocks[index]
        if block.row(row)[0] == "fold":
            self._view(index, folded=not block.folded)
        place = Cursor.place_at(block, row, event.x - self.gutter.left - GUTTER)
        self._go(Cursor(index, place))

    # -- views -------------------------------------------------------------------------------------------------------

    def action_markdown(self) -> None:
        """Between tokens by provenance and rendered Markdown, of a finished answer."""
        index = self._index(answer=True)
        if index is not None and self.blocks[index].finished:
            self._cursor = replace(self._cursor, place=None)
            self._view(index, markdown=not self.blocks[index].markdown)
            self._tell()

    def action_rejected(self) -> None:
        """Shows the guesses that were rejected, struck through, or hides them."""
        index = self._index(answer=True)
        if index is not None:
            self._cursor = replace(self._cursor, place=None)
            self._view(index, rejected=not self.blocks[index].rejected)
            self._tell()

    def action_thoughts(self) -> None:
        """Folds or unfolds the thoughts."""
        index = self._index(answer=True)
        if index is not None:
            self._cursor = replace(self._cursor, place=None)
            self._view(index, folded=not self.blocks[index].folded)
            self._tell()

    def _index(self, *, answer: bool) -> int | None:
        """The block that an action without a cursor means: the last answer."""
        at = self._cursor.block
        if at is not None and (not answer or self.blocks[at].turn.role == "assistant"):
            return at
        answers = [i for i, block in enumerate(self.blocks) if block.turn.role == "assistant"]
        return answers[-1] if answers and at is None else None

    def _view(self, index: int, **changes: bool) -> None:
        block = self.blocks[index]
        for name, value in changes.items():
            setattr(block, name, value)
        block.draw(self._drawing)
        # The reader stays where they are: what changes is in front of them.
        following, self.following = self.following, False
        self._measure(index)
        self.following = following and self.scroll_offset.y >= self.max_scroll_y

    # -- finding -----------------------------------------------------------------------------------------------------

    def find(self, needle: str) -> None:
        """Marks every place where the text occurs, without regard to case; "" marks none."""
        from localspec.tui.widgets.cursor import find_all

        self.needle = needle
        self._found = find_all(self.blocks, needle)
        self._found_now = -1
        self.refresh()

    @property
    def found(self) -> int:
        """How many places there are."""
        return len(self._found)

    def next_found(self, step: int) -> int:
        """To the next place (or the one before), round about; returns its number, from 1."""
        if not self._found:
            return 0
        at = self._found_now if self._found_now >= 0 else (-1 if step > 0 else 0)
        self._found_now = (at + step) % len(self._found)
        hit = self._found[self._found_now]
        block = self.blocks[hit.block]
        if hit.section == "thoughts" and block.folded:
            self._view(hit.block, folded=False)
        flow = block.flows[hit.section]
        self.following = False
        row = block.row_of(Place(hit.section, flow.span_at(hit.start)))
        self._bring_into_view(self.top_of(hit.block) + row)
        self.refresh()
        return self._found_now + 1

    # -- selecting with the mouse ------------------------------------------------------------------------------------

    @property
    def allow_select(self) -> bool:
        return True

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The exact source of what is selected: marks for control characters become the characters again."""
        total = self._ends[-1] if self._ends else 0
        first = selection.start.y if selection.start else 0
        last = min(selection.end.y if selection.end else total - 1, total - 1)
        rows = []
        for y in range(first, last + 1):
            if (span := selection.get_span(y)) is not None:
                index, row = self.block_at(y)
                rows.append(self.blocks[index].row_range(row, span[0], None if span[1] == -1 else span[1]))
        return source_of(rows), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()
