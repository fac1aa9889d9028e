"""The app's colours: two themes of its own, and a readable colour for each look of provenance in every theme.

In Textual's other themes the hues are moved towards the foreground until they can be read. What each look is beside its
hue stands in `looks`.
"""

from functools import lru_cache

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from localspec.chat.settings import DEFAULT_THEME

CONTRAST = 4.5
"""WCAG AA for text: what every look must reach on every ground text can stand on."""

MUTED = 0.32
"""How far muted text goes towards the background: it keeps a contrast of 4.5:1 in the app's own themes."""

DARK = Theme(
    name=DEFAULT_THEME,
    primary="#7aa2f7",
    secondary="#5f7fbf",
    accent="#8bd49c",
    foreground="#d8dbe2",
    background="#15171c",
    surface="#1b1e25",
    panel="#232731",
    success="#8bd49c",
    warning="#e3c078",
    error="#f0878f",
    dark=True,
    luminosity_spread=0.12,
    variables={
        "look-lookup": "#8bd49c",
        "look-draft": "#68c8d0",
        "look-resampled": "#f2a0c4",
        "look-bonus": "#a3b8ff",
        "look-plain": "#d8dbe2",
        "look-rejected": "#f08a90",
        "footer-key-foreground": "#8bd49c",
        "footer-background": "#1b1e25",
        "block-cursor-background": "#2c3c5e",
        "block-cursor-foreground": "#f2f4f8",
        "block-cursor-text-style": "none",
        "button-focus-text-style": "bold underline",
        "input-selection-background": "#7aa2f7 35%",
        "border": "#4a5a80",
        "border-blurred": "#2a2f3b",
        "scrollbar": "#3a4154",
        "scrollbar-hover": "#4b556d",
        "scrollbar-active": "#7aa2f7",
        "scrollbar-background": "#1b1e25",
        "scrollbar-background-hover": "#1b1e25",
        "scrollbar-background-active": "#1b1e25",
        "scrollbar-corner-color": "#1b1e25",
    },
)

LIGHT = Theme(
    name="localspec-light",
    primary="#2c5bb5",
    secondary="#54709f",
    accent="#1d6f39",
    foreground="#23272f",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e9e6df",
    success="#1d6f39",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
    luminosity_spread=0.12,
    variables={
        "look-lookup": "#1b6b36",
        "look-draft": "#0b6470",
        "look-resampled": "#a81e63",
        "look-bonus": "#3450b8",
        "look-plain": "#23272f",
        "look-rejected": "#a82828",
        "footer-key-foreground": "#1d6f39",
        "footer-background": "#f3f1ec",
        "block-cursor-background": "#cfdcf3",
        "block-cursor-foreground": "#15181d",
        "block-cursor-text-style": "none",
        "button-focus-text-style": "bold underline",
        "input-selection-background": "#2c5bb5 25%",
        "border": "#8fa3c7",
        "border-blurred": "#d5d1c8",
        "scrollbar": "#c4bfb3",
        "scrollbar-hover": "#a9a397",
        "scrollbar-active": "#2c5bb5",
        "scrollbar-background": "#f3f1ec",
        "scrollbar-background-hover": "#f3f1ec",
        "scrollbar-background-active": "#f3f1ec",
        "scrollbar-corner-color": "#f3f1ec",
    },
)

OWN = (DARK, LIGHT)

LOOKS = ("look-lookup", "look-draft", "look-resampled", "look-bonus", "look-plain", "look-rejected")
"""The theme variables of the looks, and of guesses the target rejected."""

_ANSI_DARK = {
    "look-lookup": "ansi_bright_green",
    "look-draft": "ansi_bright_cyan",
    "look-resampled": "ansi_bright_magenta",
    "look-bonus": "ansi_bright_yellow",
    "look-plain": "ansi_default",
    "look-rejected": "ansi_bright_red",
    "diff-off": "ansi_default",
}
_ANSI_LIGHT = {
    "look-lookup": "ansi_blue",
    "look-draft": "ansi_blue",
    "look-resampled": "ansi_magenta",
    "look-bonus": "ansi_magenta",
    "look-plain": "ansi_default",
    "look-rejected": "ansi_red",
    "diff-off": "ansi_default",
}
"""Green, cyan and yellow are too pale on light terminals, and bright blue too dark on some dark ones: where two looks
share a hue their attributes differ."""

_GROUNDS = ("background", "surface", "panel")


def all_themes() -> dict[str, Theme]:
    """Every theme a person can choose, the app's own first."""
    return {theme.name: theme for theme in OWN} | BUILTIN_THEMES


def grounds(theme: Theme) -> list[Color]:
    """The backgrounds on which text stands."""
    colours = _colours(theme.name)
    return [Color.parse(colours[name]) for name in _GROUNDS]


def variables(theme: Theme) -> dict[str, str]:
    """The looks' colours for style sheets and contents, readable on every ground of the theme."""
    if theme.ansi:
        return _ANSI_DARK if theme.dark else _ANSI_LIGHT
    foreground = Color.parse(_colours(theme.name)["foreground"])
    own = DARK if theme.dark else LIGHT
    wanted = {name: Color.parse(theme.variables.get(name, own.variables[name])) for name in LOOKS}
    if theme not in OWN:
        wanted["look-plain"] = foreground
    wanted["diff-off"] = foreground.blend(Color.parse(_colours(theme.name)["background"]), MUTED)
    return {name: _readable(colour, foreground, theme).hex for name, colour in wanted.items()}


def contrast(one: Color, other: Color) -> float:
    """WCAG's contrast ratio, 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Color) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (colour.r / 255, colour.g / 255, colour.b / 255)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@lru_cache(maxsize=64)
def _colours(name: str) -> dict[str, str]:
    return all_themes()[name].to_color_system().generate()


def _readable(colour: Color, foreground: Color, theme: Theme) -> Color:
    """`colour`, moved towards the foreground, and that towards black or white, until it stands out everywhere."""
    behind = grounds(theme)
    end = Color.parse("white" if theme.dark else "black")
    for goal in (foreground, end):
        for step in range(11):
            mixed = colour.blend(goal, step / 10)
            if min(contrast(mixed, ground) for ground in behind) >= CONTRAST:
                return mixed
    return end
