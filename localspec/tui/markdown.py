"""A finished answer as rendered Markdown, with highlighted code, in lines for the transcript.

The text is a model's: control characters are made visible first, and links are shown, never sent to the terminal as
such.
"""

from io import StringIO

from rich.console import Console
from rich.markdown import Markdown
from rich.segment import Segment
from rich.theme import Theme

from localspec.chat.visible import visible

STYLES = Theme(
    {
        "markdown.code": "bold",
        "markdown.code_block": "none",
        "markdown.block_quote": "italic",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold underline",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.h1.border": "none",
        "markdown.list": "none",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.hr": "dim",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
    }
)
"""Attributes only: the colours are the app's, whatever its theme."""


def render(text: str, width: int, code_theme: str) -> list[list[Segment]]:
    """Lines of segments, each at most `width` cells wide."""
    console = Console(
        file=StringIO(), width=width, color_system="truecolor", force_terminal=True, legacy_windows=False,
        highlight=False, markup=False, emoji=False, theme=STYLES,
    )  # fmt: skip
    source = visible(text.replace("\r\n", "\n"))
    markdown = Markdown(source, code_theme=code_theme, hyperlinks=False)
    lines = console.render_lines(markdown, console.options.update(width=width), pad=False)
    while lines and not "".join(segment.text for segment in lines[-1]).strip():
        lines.pop()
    return lines
