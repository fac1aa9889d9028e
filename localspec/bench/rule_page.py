"""The comparison of the rules on a page: tokens per cycle and speed-up at every temperature, and all the figures."""

from collections.abc import Sequence

from localspec.bench import linechart
from localspec.bench.linechart import Line
from localspec.bench.markup import table
from localspec.bench.rule_results import RULES, RuleCell, Rules

HEADING = "The verification rules"

Charts = list[tuple[str, str]]
"""Pictures, each with its table; both are markup."""


def charts(rules: Rules) -> Charts:
    """One for each temperature, over all texts; the table has each text."""
    return [_chart(rules, mean) for mean in rules.means]


def told(rules: Rules) -> list[str]:
    """What stands under the pictures, as markup: the wall clock, the gains and the price of the arithmetic."""
    body = []
    rows: list[tuple[str, ...]]
    headings: tuple[str, ...]
    if rules.runs:
        rows = [
            (
                f"{run.temperature:g}", run.rule, str(run.length), number(run.wall.value, "x"),
                between(run.wall.low, run.wall.high), number(run.tokens_per_cycle), str(run.answers),
            )
            for run in rules.runs
        ]  # fmt: skip
        headings = ("temperature", "rule", "length", "speed-up", "95 % interval", "tokens/cycle", "answers")
        body += ["<h3>By the wall clock</h3>", table(headings, rows)]
    gains = [gain for gain in rules.gains if gain.temperature is None]
    if gains:
        rows = [
            (gain.rule, str(gain.length), number(gain.ratio.value, "x"), between(gain.ratio.low, gain.ratio.high))
            for gain in gains
        ]
        headings = ("rule", "length", "tokens/cycle over rejection", "95 % interval")
        body += ["<h3>Against rejection, at the same places</h3>", table(headings, rows)]
    if rules.times:
        rows = [
            (one.filters, str(one.vocab), f"{one.laws:.3f}", *(f"{one.rules[rule]:.3f}" for rule in RULES))
            for one in rules.times
        ]
        headings = ("filters", "vocabulary", "ms for the laws", *(f"ms, {rule}" for rule in RULES))
        body += ["<h3>Arithmetic a drafted token</h3>", table(headings, rows)]
    return body


def number(value: float | None, unit: str = "") -> str:
    return "–" if value is None else f"{value:.2f}{unit}"


def between(low: float | None, high: float | None, places: int = 2) -> str:
    return "–" if low is None or high is None else f"{low:.{places}f} to {high:.{places}f}"


def _chart(rules: Rules, mean: RuleCell) -> tuple[str, str]:
    after = f"by rule, temperature {mean.temperature:g}"
    tokens = [Line(rule, _tokens(mean, rule, rules.lengths)) for rule in RULES]
    speedups = [Line(rule, _speedups(mean, rule, rules.lengths)) for rule in RULES]
    words = "draft length; expected tokens a cycle, mean over the texts"
    picture = linechart.chart(f"Tokens per cycle {after}", words, rules.lengths, tokens)
    if rules.priced_by:
        words = "draft length; speed-up in virtual time over plain decoding, which is the line at 1"
        picture += linechart.chart(f"Speed-up {after}", words, rules.lengths, speedups, rules=(1.0,))
    cells = [cell for cell in (*rules.cells, mean) if cell.temperature == mean.temperature]
    headings = (
        "text", "length", *(f"tokens/cycle, {rule}" for rule in RULES), *(f"speed-up, {rule}" for rule in RULES),
        "places",
    )  # fmt: skip
    rows = [
        (
            cell.text, str(length), *map(number, (_tokens(cell, rule, [length])[0] for rule in RULES)),
            *(number(_speedups(cell, rule, [length])[0], "x") for rule in RULES),
            str(cell.places),
        )
        for cell in cells for length in rules.lengths
    ]  # fmt: skip
    return picture, table(headings, rows)


def _tokens(cell: RuleCell, rule: str, lengths: Sequence[int]) -> list[float | None]:
    return [1 + point.accepted if (point := cell.at(rule, length)) else None for length in lengths]


def _speedups(cell: RuleCell, rule: str, lengths: Sequence[int]) -> list[float | None]:
    return [point.speedup if (point := cell.at(rule, length)) else None for length in lengths]
