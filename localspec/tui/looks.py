"""The looks of provenance on the screen: one style each, its colour a theme variable.

Every style has an attribute of its own, the same as on the command line, so that it reads without hue (NO_COLOR, few
colours). A theme sets `look-lookup` and so on in its variables; for one that does not, the defaults here hold.
"""

from collections.abc import Iterable

from rich.style import Style as RichStyle
from textual.content import Content
from textual.style import Style
from textual.theme import Theme

from localspec.chat.looks import MARKS, NAMES, Look

STYLES: dict[str, str] = {
    "lookup": "bold $look-lookup",
    "draft": "italic $look-draft",
    "resampled": "underline $look-resampled",
    "bonus": "bold underline $look-bonus",
    "plain": "$look-plain",
    "rejected": "strike $look-rejected",
}
"""Of the looks, and of guesses the target rejected."""

_DARK = {
    "look-lookup": "#7fd88f",
    "look-draft": "#6cc7d9",
    "look-resampled": "#e59ad6",
    "look-bonus": "#8fb4ff",
    "look-plain": "#d5d8de",
    "look-rejected": "#e88a8a",
}
_LIGHT = {
    "look-lookup": "#1a6b2f",
    "look-draft": "#0b6372",
    "look-resampled": "#8d2a7c",
    "look-bonus": "#274fb8",
    "look-plain": "#24292f",
    "look-rejected": "#a82828",
}
_ANSI_DARK = {
    "look-lookup": "ansi_green",
    "look-draft": "ansi_cyan",
    "look-resampled": "ansi_bright_magenta",
    "look-bonus": "ansi_bright_blue",
    "look-plain": "ansi_default",
    "look-rejected": "ansi_bright_red",
}
_ANSI_LIGHT = {
    "look-lookup": "ansi_blue",
    "look-draft": "ansi_blue",
    "look-resampled": "ansi_magenta",
    "look-bonus": "ansi_magenta",
    "look-plain": "ansi_default",
    "look-rejected": "ansi_red",
}
"""Green and cyan are too pale on most light terminals: there the attribute tells the kinds of one hue apart."""


def variables(theme: Theme) -> dict[str, str]:
    """The looks' colours for a theme that does not set them itself."""
    if theme.ansi:
        return _ANSI_DARK if theme.dark else _ANSI_LIGHT
    return _DARK if theme.dark else _LIGHT


def rich_style(name: str, theme_variables: dict[str, str]) -> RichStyle:
    """The style of a look for widgets that draw lines themselves."""
    return Style.parse(STYLES[name], theme_variables).rich_style


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
