"""A line chart, and its figures as a table: lines over the same few values of x, which stand side by side as they are
(draft lengths, numbers of sequences: what lies between two of them was not measured)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.bench import markup, svg

WIDTH, HEIGHT = 760.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 130.0, 20.0, 60.0

LETTERS = 14.0
"""The height of a line's name."""

KINDS = ("", "c1", "c2")
"""How lines are told apart without colour: whole, dashed, dotted."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a value for each x; None where nothing was measured."""

    name: str
    values: Sequence[float | None]


def chart(title: str, x_words: str, xs: Sequence[int], lines: Sequence[Line], *, rules: Sequence[float] = ()) -> str:
    """The picture; `rules` are values that deserve a line across it. Lines are whole, dashed or dotted, in turn."""
    known = [value for line in lines for value in line.values if value is not None]
    top = svg.ticks(max([*known, *rules, 1e-9]) * 1.02, 5)
    floor = HEIGHT - BOTTOM

    def x(place: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / max(1, len(xs))

    def y(value: float) -> float:
        return TOP + (floor - TOP) * (1 - value / top[-1])

    parts = []
    for tick in top:
        parts.append(svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(svg.text(LEFT - 8, y(tick) + 4, f"{tick:g}", at="end", kind="small"))
    for place, here in enumerate(xs):
        parts.append(svg.text(x(place), floor + 16, str(here), at="middle", kind="small"))
    parts += [svg.line(LEFT, y(rule), WIDTH - RIGHT, y(rule), "one") for rule in rules]
    names: list[tuple[tuple[float, float], str]] = []
    for number, line in enumerate(lines):
        points = [(x(place), y(value)) for place, value in enumerate(line.values) if value is not None]
        if not points:
            continue
        parts.append(svg.path(points, f"curve {KINDS[number % len(KINDS)]}".strip()))
        for place, value in enumerate(line.values):
            if value is not None:
                parts.append(svg.dot(x(place), y(value), 3, "point", f"{line.name}, {xs[place]}: {value:.2f}"))
        names.append((points[-1], line.name))
    for at, ((end, _), name) in zip(_apart([height for (_, height), _ in names]), names, strict=True):
        parts.append(svg.text(end + 10, at + 4, name, kind="small"))
    parts.append(svg.text(LEFT, HEIGHT - 12, x_words, kind="small"))
    described = "; ".join(
        f"{line.name}: " + ", ".join(f"{x_} {value:.2f}" for x_, value in zip(xs, line.values, strict=True) if value)
        for line in lines
    )
    return svg.figure(WIDTH, HEIGHT, title, described or "nothing was measured", parts)


def _apart(heights: Sequence[float]) -> list[float]:
    """Where to write what belongs to these heights, so that none is written over another."""
    placed = list(heights)
    order = sorted(range(len(placed)), key=lambda one: placed[one])
    for above, below in itertools.pairwise(order):
        placed[below] = max(placed[below], placed[above] + LETTERS)
    return placed


def table(first: str, xs: Sequence[int], lines: Sequence[Line]) -> str:
    """The chart's figures as markup; `first` names the x."""
    rows = [(str(x), *(_figure(line.values[place]) for line in lines)) for place, x in enumerate(xs)]
    return markup.table((first, *(line.name for line in lines)), rows)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
