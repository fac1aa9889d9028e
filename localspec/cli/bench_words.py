"""Lists of numbers as options, figures in words, bars drawn with letters: what the measuring commands share."""

from collections.abc import Mapping
from typing import Any

import click

from localspec.cli.options import Number

MISSING = "–"
BAR_WIDTH = 32


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 on only
    """Whole numbers between commas, each within a range, ascending and each once."""

    name = "n,n,..."

    def __init__(self, low: int, high: int) -> None:
        self._one = Number(int, low, high)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        numbers = {int(self._one.convert(part.strip(), param, ctx)) for part in str(value).split(",")}
        return tuple(sorted(numbers))


def bar(value: float | None, top: float, marks: Mapping[str, float | None] | None = None) -> str:
    """`value` as a bar of blocks, a full one being `top`; every mark is a letter put where its value lies."""
    cells = [" "] * BAR_WIDTH

    def place(at: float) -> int:
        return max(0, min(BAR_WIDTH, round(at / top * BAR_WIDTH))) if top > 0 else 0

    if value is not None:
        cells[: place(value)] = "█" * place(value)
    for letter, at in (marks or {}).items():
        if at is not None and 0 < at <= top:
            cells[max(0, place(at) - 1)] = letter
    return "".join(cells).rstrip()


def number(value: float | None, form: str = ".2f", unit: str = "") -> str:
    """A figure in words; one with nothing behind it is "–"."""
    return MISSING if value is None else f"{value:{form}}{unit}"


def refuse_ways(values: Mapping[str, Any], what: str) -> None:
    """Options that choose one way to speculate do not belong to a command that compares them. Raises UsageError."""
    for name in ("speculate", "draft_length"):
        if values.get(name) is not None:
            raise click.UsageError(f"{what}: --{name.replace('_', '-')} does not belong here")
