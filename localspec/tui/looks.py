"""The looks of provenance on the screen: one style each, its colour a theme variable.

Every style has an attribute of its own, the same as on the command line, so that it reads without hue (NO_COLOR, few
colours). The colours behind `$look-lookup` and so on are the theme's (see `themes`).
"""

from collections.abc import Iterable

from rich.style import Style as RichStyle
from textual.color import Color
from textual.content import Content
from textual.style import Style
from textual.theme import Theme

from localspec.chat.looks import MARKS, NAMES, Look
from localspec.tui import themes

STYLES: dict[str, str] = {
    "lookup": "bold $look-lookup",
    "draft": "italic $look-draft",
    "resampled": "underline $look-resampled",
    "bonus": "bold underline $look-bonus",
    "plain": "$look-plain",
    "rejected": "strike $look-rejected",
}
"""Of the looks, and of guesses the target rejected."""

DIFF: dict[str, str] = {
    "+": "bold $look-lookup",
    "-": "$look-rejected",
    " ": "$foreground",
    "off": "$diff-off",
    "head": "bold $look-bonus",
    "number": "$diff-off",
}
"""Of a diff's lines: added, taken away, kept, part of a change that is not accepted; a change's heading, and line
numbers. The colours are those of the looks, because they can be read in every theme."""

CODE_THEMES = {
    (False, True): "github-dark",
    (False, False): "xcode",
    (True, True): "ansi_dark",
    (True, False): "ansi_light",
}
"""How code in rendered Markdown is highlighted, by (few colours, dark)."""


def rich_style(name: str, theme_variables: dict[str, str]) -> RichStyle:
    """The style of a look for widgets that draw lines themselves."""
    return Style.parse(STYLES[name], theme_variables).rich_style


def muted(theme: Theme, theme_variables: dict[str, str]) -> RichStyle:
    """For what is less important, in widgets that draw lines themselves."""
    if theme.ansi:
        return RichStyle(dim=True)
    foreground, background = (Color.parse(theme_variables[name]) for name in ("foreground", "background"))
    return RichStyle.from_color(foreground.blend(background, themes.MUTED).rich_color)


def legend(looks: Iterable[Look], *, marks: bool = False, short: bool = False) -> Content:
    """The names of `looks`, each in its own look."""
    words = []
    for look in looks:
        name = SHORT_NAMES[look] if short else NAMES[look]
        before, after = MARKS[look] if marks else ("", "")
        words.append(Content.styled(f"{before}{name}{after}", STYLES[look]))
    return Content("  ").join(words)


SHORT_NAMES: dict[Look, str] = {
    "lookup": "lookup",
    "draft": "draft",
    "resampled": "resampled",
    "bonus": "bonus",
    "plain": "plain",
}
