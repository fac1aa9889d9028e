"""The diff's lines: numbers, breaks, odd characters; and moving through changes that are longer than the screen."""

from itertools import pairwise
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.color import Color
from textual.style import Style

from localspec.assist.diff import hunks
from localspec.assist.edit_file import of_bytes
from localspec.tui import themes
from localspec.tui.looks import DIFF
from localspec.tui.proposal import Proposal
from localspec.tui.widgets.diffview import DiffView, heading, lines_of
from tests.tui.helpers import until


def proposal(old: str, new: str) -> Proposal:
    return Proposal(of_bytes(old.encode(), "a.py", Path("a.py")), hunks(old, new, 1))


class Shown(App[None]):
    """A diff view alone, with the app's colours."""

    def __init__(self, shown: Proposal) -> None:
        super().__init__()
        self.view = DiffView(shown)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.variables(self.current_theme)

    def compose(self) -> ComposeResult:
        yield self.view


def told(old: str, new: str, width: int = 40) -> list[tuple[str, str, int | None, int | None]]:
    return [
        (line.style, line.text, line.old, line.new)
        for number, hunk in enumerate(hunks(old, new, 1))
        for line in lines_of(number, hunk, width)
    ]


def test_both_numbers_count_on() -> None:
    assert told("a\nb\nc\n", "a\nB\nB2\nc\n") == [
        (" ", "a", 1, 1), ("-", "b", 2, None), ("+", "B", None, 2), ("+", "B2", None, 3), (" ", "c", 3, 4),
    ]  # fmt: skip


def test_a_long_line_is_broken_and_numbered_once() -> None:
    lines = told("x\n", "one two three\n", 8)
    assert lines == [("-", "x", 1, None), ("+", "one two ", None, 1), ("+", "three", None, None)]


def test_what_a_file_has_never_steers_the_terminal() -> None:
    assert told("a\r\n", "a\x1b[2J\t.\r\n")[1:] == [("+", "a␛[2J    .", None, 1)]


def test_a_last_line_without_an_end_is_said() -> None:
    assert told("a", "b\n") == [("-", "a  (no newline at the end)", 1, None), ("+", "b", None, 1)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a\n", "b\n", "line 1  +1 -1"),
        ("a\nb\nc\n", "a\nc\n", "lines 1-3  +0 -1"),
        ("", "a\n", "new lines  +1 -0"),
    ],
)
def test_a_heading_says_where_and_how_much(old: str, new: str, words: str) -> None:
    assert heading(hunks(old, new, 1)[0]) == words


async def test_a_change_longer_than_the_screen_is_scrolled_through_before_the_next() -> None:
    old = "".join(f"{number}\n" for number in range(60)) + "keep\n" * 5 + "last\n"
    new = "".join(f"{number}!\n" for number in range(60)) + "keep\n" * 5 + "LAST\n"
    app = Shown(proposal(old, new))
    async with app.run_test(size=(60, 20)) as pilot:
        view = app.view
        view.focus()
        await until(pilot, lambda: view.has_focus and view.show_vertical_scrollbar)
        seen = []
        while view.current == 0:
            seen.append(view.scroll_offset.y)
            await pilot.press("down")
        assert seen == sorted(set(seen))
        assert all(b - a < 20 for a, b in pairwise(seen)), "no line was passed over"
        assert "[x] lines 65-66" in view.text
        top, height = view.scroll_offset.y, view.scrollable_content_region.height
        assert top <= view._tops[1] < view._end(1) <= top + height
        await pilot.press("up")
        assert view.current == 0
        for _ in range(12):
            await pilot.press("up")
        assert view.scroll_offset.y == 0


async def test_a_click_on_a_heading_accepts_or_leaves_its_change() -> None:
    app = Shown(proposal("a\n\n\n\n\nb\n", "A\n\n\n\n\nB\n"))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click(DiffView, offset=(6, app.view._tops[1]))
        assert (app.view.current, app.view.proposal.chosen) == (1, {0})
        await pilot.click(DiffView, offset=(6, 1))
        assert (app.view.current, app.view.proposal.chosen) == (0, {0})


@pytest.mark.parametrize(
    "theme", [one for one in themes.all_themes().values() if not one.ansi], ids=lambda one: one.name
)
def test_every_line_of_a_diff_can_be_read_in_every_theme(theme: themes.Theme) -> None:
    """T10"""
    colours = {**theme.to_color_system().generate(), **themes.variables(theme)}
    ground = Color.parse(colours["background"])
    for name, style in DIFF.items():
        foreground = Style.parse(style, colours).foreground
        assert foreground is not None
        assert themes.contrast(foreground, ground) >= themes.CONTRAST, name
