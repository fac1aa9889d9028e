"""Lines over a few values that were measured: where a point stands, and what is not drawn."""

import re

from localspec.bench.linechart import Line, chart, table
from tests.bench.test_html import Page

XS = [1, 2, 8]


def test_a_point_stands_at_its_height_between_the_rules_of_the_grid() -> None:
    picture = chart("t", "x", XS, [Line("a", [0.0, 2.0, 1.0])], rules=(1.0,))
    heights = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', picture)]
    (rule,) = re.findall(r'y1="([\d.]+)" x2="[\d.]+" y2="[\d.]+" class="one"', picture)
    zero, two, one = heights
    assert two < one < zero
    assert one == float(rule) == (zero + two) / 2


def test_what_was_not_measured_is_not_drawn() -> None:
    lines = [Line("a", [1.0, None, 3.0]), Line("b", [None, None, None])]
    found = Page(chart("t", "x", XS, lines))
    assert (found.count("circle"), found.count("path")) == (2, 1)
    cells = Page(table("x", XS, lines)).words["td"]
    assert cells == ["1", "1.00", "–", "2", "–", "–", "8", "3.00", "–"]


def test_lines_are_told_apart_without_colour() -> None:
    picture = chart("t", "x", XS, [Line(name, [1.0, 2.0, 3.0]) for name in "abc"])
    assert re.findall(r'class="(curve[^"]*)"', picture) == ["curve", "curve c1", "curve c2"]


def test_names_of_lines_that_end_together_are_not_written_over_each_other() -> None:
    picture = chart(
        "t", "x", XS, [Line("one", [1.0, 2.0, 3.0]), Line("two", [1.0, 2.0, 3.02]), Line("three", [1, 1, 0])]
    )
    ends = {name: float(y) for y, name in re.findall(r'y="([\d.]+)" text-anchor="start" class="small">(\w+)<', picture)}
    assert ends["two"] + 13.9 <= ends["one"] < ends["three"] - 100


def test_names_from_outside_are_text() -> None:
    """T2."""
    line = Line("<b>[/]&", [1.0, 2.0, 3.0])
    found = Page(chart("<i>", "</svg>", XS, [line]) + table("<u>", XS, [line]))
    assert {"b", "i", "u"}.isdisjoint({tag for tag, _ in found.tags})
    assert "<b>[/]&" in found.words["th"]
