"""The app's colours: two themes of its own, and a readable colour and attribute for each look in every theme.

A look is told twice: by hue, and by an attribute that stays where hues are missing (NO_COLOR, 16 colours, colour
blindness). In Textual's other themes the hues are moved towards the foreground until they can be read.
"""

from functools import lru_cache

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from localspec.chat.looks import LOOKS, Look
from localspec.chat.settings import DEFAULT_THEME

CONTRAST = 4.5
"""WCAG AA for text: what every look must reach on every ground text can stand on."""

ATTRIBUTES: dict[Look, str] = {
    "lookup": "bold",
    "draft": "italic",
    "resampled": "underline",
    "bonus": "bold underline",
    "plain": "",
}
"""The same as on the command line."""

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
        "footer-key-foreground": "#8bd49c",
        "footer-background": "#1b1e25",
        "block-cursor-background": "#2c3c5e",
        "block-cursor-foreground": "#f2f4f8",
        "block-cursor-text-style": "none",
        "input-selection-background": "#7aa2f7 35%",
        "border": "#4a5a80",
        "border-blurred": "#2a2f3b",
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
        "footer-key-foreground": "#1d6f39",
        "footer-background": "#f3f1ec",
        "block-cursor-background": "#cfdcf3",
        "block-cursor-foreground": "#15181d",
        "block-cursor-text-style": "none",
        "input-selection-background": "#2c5bb5 25%",
        "border": "#8fa3c7",
        "border-blurred": "#d5d1c8",
    },
)

OWN = (DARK, LIGHT)

_ANSI: dict[bool, dict[Look, str]] = {
    True: {
        "lookup": "ansi_bright_green",
        "draft": "ansi_bright_cyan",
        "resampled": "ansi_bright_magenta",
        "bonus": "ansi_bright_yellow",
        "plain": "ansi_default",
    },
    False: {
        "lookup": "ansi_blue",
        "draft": "ansi_magenta",
        "resampled": "ansi_red",
        "bonus": "ansi_default",
        "plain": "ansi_default",
    },
}
"""By darkness. The terminal's own palette decides how they look: these reach the contrast in the usual ones."""

_GROUNDS = ("background", "surface", "panel")


def all_themes() -> dict[str, Theme]:
    """Every theme a person can choose, the app's own first."""
    return {theme.name: theme for theme in OWN} | BUILTIN_THEMES


def grounds(theme: Theme) -> list[Color]:
    """The backgrounds on which text stands."""
    colours = _colours(theme.name)
    return [Color.parse(colours[name]) for name in _GROUNDS]


def colours(theme: Theme) -> dict[Look, str]:
    """Each look's colour as CSS."""
    if theme.ansi:
        return _ANSI[theme.dark]
    found = _colours(theme.name)
    foreground = Color.parse(found["foreground"])
    own = DARK if theme.dark else LIGHT
    wanted: dict[Look, str] = {
        look: theme.variables.get(f"look-{look}", own.variables.get(f"look-{look}", found["foreground"]))
        for look in LOOKS
    }
    return {look: _readable(Color.parse(colour), foreground, theme).hex for look, colour in wanted.items()}


def styles(theme: Theme) -> dict[Look, Style]:
    """Each look for painting lines: its colour and its attribute."""
    return {
        look: Style.parse(f"{ATTRIBUTES[look]} {colour.removeprefix('ansi_')}".strip())
        for look, colour in colours(theme).items()
    }


def css_variables(theme: Theme) -> dict[str, str]:
    """`$look-lookup` and so on, and `$look-lookup-style` with the attribute as well, for style sheets and contents."""
    found = colours(theme)
    return {f"look-{look}": found[look] for look in LOOKS} | {
        f"look-{look}-style": f"{found[look]} {ATTRIBUTES[look]}".strip() for look in LOOKS
    }


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
