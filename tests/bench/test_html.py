"""The page: whole, complete, harmless, and readable in both lights."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from localspec.bench import plots, svg
from localspec.bench.html import COLOURS, page
from localspec.bench.results import Row
from localspec.bench.stats import Estimate
from tests.bench.reports import CURVE, HOSTILE, MODE, REPORT

EMPTY = {"meta", "br", "line", "rect", "path", "circle", "polygon"}


class Page(HTMLParser):
    """Every element must be closed in its turn; counts what is there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.setdefault(self.open[-1] if self.open else "", []).append(data)

    def count(self, tag: str) -> int:
        return sum(1 for name, _ in self.tags if name == tag)


def test_every_picture_is_there_with_its_name_description_and_figures() -> None:
    """Speed-ups, two drafters' run lengths, the cost curve."""
    found = Page(page(REPORT))
    assert found.count("svg") == found.count("figure") == found.count("desc") == 4
    assert found.count("table") >= 4
    assert all(attributes.get("role") == "img" for tag, attributes in found.tags if tag == "svg")
    titles = " | ".join(found.words["title"])
    for name in ("Speed-up by category, auto", "Accepted run lengths, lookup", "run lengths, draft", "Cost of a pass"):
        assert name in titles
    assert "2.50x" in "".join(found.words["td"])


def test_names_from_outside_are_text() -> None:
    """T2: a request, a category, a file and a command that try to be markup, a terminal's orders, a change of
    direction."""
    text = page(REPORT)
    found = Page(text)
    assert found.count("script") == 0
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.count("&lt;/title&gt;&lt;script&gt;") >= 5
    assert any(HOSTILE[:20] in words for words in found.words["td"])


def test_nothing_is_fetched() -> None:
    found = Page(page(REPORT))
    for tag, attributes in found.tags:
        assert tag not in ("link", "img", "iframe", "script", "image", "use")
        assert not {"src", "href", "srcset", "onload", "onclick"} & set(attributes)
    style = "".join(found.words["style"])
    assert "url(" not in style
    assert "@import" not in style


def test_it_says_machine_models_date_and_command() -> None:
    text = page(REPORT)
    for words in ("t.gguf", "A &amp; B &lt;cpu&gt;", "2025-01-02T03:04:05", "localspec bench --workload", "AVX2 = 1"):
        assert words in text
    assert "Stopped before its end" in text
    assert "load 5.5 on 2 cores" in text
    assert "busy" not in page(replace(REPORT, load=0.5))
    assert "Stopped" not in page(replace(REPORT, complete=True))
    assert "slower than plain in" in text


def _contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("place", [0, 1])
def test_text_and_marks_stand_out_in_both_lights(place: int) -> None:
    """WCAG: 4.5 to 1 for text, 3 to 1 for what carries a figure."""
    ground = COLOURS["page"][place]
    for name in ("ink", "quiet"):
        assert _contrast(COLOURS[name][place], ground) >= 4.5
    for name in ("bar", "second", "strong"):
        assert _contrast(COLOURS[name][place], ground) >= 3
    assert _contrast(COLOURS["ink"][place], COLOURS["chosen"][place]) >= 3
    assert "prefers-color-scheme: dark" in page(REPORT)


def test_every_colour_used_is_one_of_the_page() -> None:
    assert set(re.findall(r"var\(--(\w+)\)", page(REPORT))) <= set(COLOURS)


def test_a_report_of_nothing_is_a_page() -> None:
    nothing = replace(REPORT, modes=(), curve=None)
    assert "Nothing was compared" in page(nothing)
    Page(page(nothing))
    assert Page(page(replace(nothing, curve=CURVE))).count("svg") == 1
    bare = replace(
        MODE, categories=(Row("x"),), mean=Row("geometric mean"), run_lengths={}, draft_lengths={}, prompts=()
    )
    assert Page(page(replace(REPORT, modes=(bare,)))).count("svg") == 2


def test_several_modes_are_compared_by_their_means() -> None:
    other = replace(MODE, name="lookup", mean=replace(MODE.mean, wall=Estimate(1.23, 1.2, 1.3)))
    text = page(replace(REPORT, modes=(MODE, other)))
    overview = text.split("Geometric means")[1].split("</table>")[0]
    assert overview.index("1.54x") < overview.index("1.23x")
    assert "Geometric means" not in page(REPORT)


def _rects(text: str, kind: str) -> list[tuple[float, float]]:
    """Width and height of the bars of a kind."""
    found = re.findall(rf'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="([\d.]+)" class="{kind}"', text)
    return [(float(width), float(height)) for width, height in found]


def test_bars_are_as_long_as_their_figures() -> None:
    rows = (Row("a", wall=Estimate(1.0)), Row("b", wall=Estimate(3.0)))
    text = plots.speedups(replace(MODE, categories=rows, mean=Row("geometric mean", wall=Estimate(2.0))))
    (one, _), (three, _), (two, _) = _rects(text, "bar")
    assert three == pytest.approx(3 * one, abs=0.2)
    assert two == pytest.approx(2 * one, abs=0.2)
    ones = re.search(r'<line x1="([\d.]+)" y1="[\d.]+" x2="[\d.]+" y2="[\d.]+" class="one"', text)
    assert ones is not None
    assert float(ones[1]) == pytest.approx(plots.LEFT + one, abs=0.2)


def test_run_lengths_are_shares_of_the_drafts() -> None:
    heights = [height for _, height in _rects(plots.run_lengths(MODE, "lookup"), "lookup")]
    assert len(heights) == 16
    assert heights[3] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[15] == pytest.approx(7 * heights[0], abs=0.5)
    assert heights[1] == 0
    assert f"{(3 * 20 + 15 * 70) / 100:.2f} tokens kept on average" in plots.run_lengths(MODE, "lookup")


def test_the_curve_has_a_line_a_context_and_the_lengths_that_were_chosen() -> None:
    text = plots.cost_curve(CURVE, MODE)
    assert text.count("<path") == 2
    assert "draft length 15: 70 of 120 drafts" in text
    heights = [height for _, height in _rects(text, "chosen")]
    assert len(heights) == 3
    # Draft lengths 2, 3 and 15: 20, 30 and 70 drafts.
    assert heights[2] / heights[0] == pytest.approx(3.5, rel=0.02)
    assert plots.cost_curve(CURVE, None).count('class="chosen"') == 0


def test_axes_have_round_numbers_up_to_the_top() -> None:
    assert svg.ticks(1.0, 4) == pytest.approx([0, 0.5, 1.0])
    assert svg.ticks(7.5, 5) == pytest.approx([0, 2, 4, 6, 8])
    for top in (0.013, 0.99, 1.0, 3.2, 47.0, 1234.0):
        found = svg.ticks(top)
        assert found[0] == 0
        assert found[-2] < top <= found[-1] * (1 + 1e-9)
        assert len(found) <= 9


def test_a_longer_draft_than_can_be_is_not_drawn() -> None:
    """A saved report is a file like any other: no size in it decides how much is written."""
    wild = replace(MODE, run_lengths={"lookup": {"99999999999": 1, "x": 2, "2": 1}})
    assert len(plots.run_lengths(wild, "lookup")) < 10_000
