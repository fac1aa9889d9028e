"""Colours: every look can be read in every theme, and told without hue."""

import pytest
from textual.color import Color
from textual.theme import Theme

from localspec.tui import looks, themes
from tests.tui.helpers import Bench

PALETTES = {
    "vga": ("aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa", "ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"),
    "xterm": ("cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5", "ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"),
    "macOS": ("990000 00a600 999900 0000b2 b200b2 00a6b2 bfbfbf", "e50000 00d900 e5e500 0000ff e500e5 00e5e5 e5e5e5"),
    "Windows": ("c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc", "e74856 16c60c f9f1a5 3b78ff b4009e 61d6d6 f2f2f2"),
}
"""The usual palettes of terminals: red, green, yellow, blue, magenta, cyan, white, then the bright ones."""

NAMES = ("red", "green", "yellow", "blue", "magenta", "cyan", "white")


def ansi(name: str, palette: str, dark: bool) -> Color:
    if name == "ansi_default":
        return Color.parse("#ffffff" if dark else "#000000")
    normal, bright = (line.split() for line in PALETTES[palette])
    plain = name.removeprefix("ansi_")
    chosen = bright if plain.startswith("bright_") else normal
    return Color.parse("#" + chosen[NAMES.index(plain.removeprefix("bright_"))])


RGB = [theme for theme in themes.all_themes().values() if not theme.ansi]


@pytest.mark.parametrize("theme", RGB, ids=lambda theme: theme.name)
def test_every_look_reaches_the_contrast_on_every_ground(theme: Theme) -> None:
    """T10"""
    for name, colour in themes.variables(theme).items():
        for ground in themes.grounds(theme):
            assert themes.contrast(Color.parse(colour), ground) >= themes.CONTRAST, name


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("dark", [True, False])
def test_in_sixteen_colours_every_look_reaches_the_contrast(palette: str, dark: bool) -> None:
    """T10: against black or white, in the usual terminals' own palettes. Windows' and macOS's bright red and magenta on
    black are the terminal's to answer for; there underline and strike tell the look."""
    theme = themes.all_themes()["ansi-dark" if dark else "ansi-light"]
    ground = Color.parse("#000000" if dark else "#ffffff")
    for name, colour in themes.variables(theme).items():
        if dark and name in ("look-resampled", "look-rejected") and palette in ("macOS", "Windows", "vga"):
            assert themes.contrast(ansi(colour, palette, dark), ground) >= 3, name
        else:
            assert themes.contrast(ansi(colour, palette, dark), ground) >= themes.CONTRAST, name


def test_the_contrast_is_wcags() -> None:
    assert themes.contrast(Color.parse("#000000"), Color.parse("#ffffff")) == pytest.approx(21)
    assert themes.contrast(Color.parse("#777777"), Color.parse("#ffffff")) == pytest.approx(4.48, abs=0.01)


def test_every_look_has_an_attribute_of_its_own() -> None:
    """T10: with all hues gone no two looks are drawn alike."""
    attributes = [tuple(word for word in style.split() if not word.startswith("$")) for style in looks.STYLES.values()]
    assert len(set(attributes)) == len(attributes)


@pytest.mark.parametrize("name", ["localspec-dark", "localspec-light", "nord", "ansi-dark", "ansi-light"])
async def test_a_theme_brings_the_looks_into_style_sheets(name: str) -> None:
    from localspec.chat.settings import Settings

    bench = Bench(settings=Settings(theme=name))
    async with bench.app.run_test(size=(80, 24)):
        assert bench.app.theme == name
        variables = bench.app.theme_variables
        for look, colour in themes.variables(bench.app.current_theme).items():
            assert variables[look].lower() == colour.lower()


async def test_a_theme_nobody_knows_is_the_default() -> None:
    """T11"""
    from localspec.chat.settings import Settings

    bench = Bench(settings=Settings(theme="[/no]such"))
    async with bench.app.run_test(size=(80, 24)):
        assert bench.app.theme == "localspec-dark"
