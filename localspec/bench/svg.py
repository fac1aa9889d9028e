"""Small pieces of SVG: escaped text, axes with round numbers. Colours are classes; the page says what they are."""

import math
from collections.abc import Sequence
from html import escape

from localspec.models.errors import plain


def text(x: float, y: float, words: str, *, at: str = "start", kind: str = "") -> str:
    """`at`: start, middle or end of the words is at `x`. Text from outside is escaped, control characters dropped."""
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{at}"{kind}>{shown(words)}</text>'


def shown(words: str) -> str:
    """Text from outside, harmless in a page."""
    return escape(plain(words, 2000))


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def bar(x: float, y: float, width: float, height: float, kind: str, told: str) -> str:
    """A rectangle that says what it stands for when it is pointed at."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}" class="{kind}">'
        f"<title>{shown(told)}</title></rect>"
    )


def diamond(x: float, y: float, size: float, kind: str, told: str) -> str:
    points = f"{x:.1f},{y - size:.1f} {x + size:.1f},{y:.1f} {x:.1f},{y + size:.1f} {x - size:.1f},{y:.1f}"
    return f'<polygon points="{points}" class="{kind}"><title>{shown(told)}</title></polygon>'


def dot(x: float, y: float, size: float, kind: str, told: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" class="{kind}"><title>{shown(told)}</title></circle>'


def path(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through the points."""
    steps = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return f'<path d="{steps}" class="{kind}"/>'


def figure(width: float, height: float, title: str, description: str, parts: Sequence[str]) -> str:
    """One picture, with its name and description for those who do not see it."""
    inner = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" xmlns="http://www.w3.org/2000/svg">\n'
        f"<title>{shown(title)}</title>\n<desc>{shown(description)}</desc>\n{inner}\n</svg>"
    )


def ticks(top: float, count: int = 6) -> list[float]:
    """Round numbers from 0 on, the last at least `top`; about `count` of them."""
    rough = max(top, 1e-9) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]
