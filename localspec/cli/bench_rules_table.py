"""The comparison of the rules as tables for a terminal."""

import click

from localspec.bench.rule_page import between
from localspec.bench.rule_results import RULES, RuleCell, RulePoint, Rules
from localspec.cli.bench_words import MISSING, number
from localspec.cli.output import print_table


def print_rules(rules: Rules) -> None:
    """All of it."""
    if not rules.complete:
        click.echo("Stopped before its end: this is what was measured until then.")
    click.echo(f"top-k {rules.top_k}, top-p {rules.top_p:g}, min-p {rules.min_p:g}; "
               f"virtual time: {rules.priced_by or 'no cost curve'}")  # fmt: skip
    for mean in rules.means:
        cells = [cell for cell in rules.cells if cell.temperature == mean.temperature]
        click.echo(f"\nTemperature {mean.temperature:g}: tokens per cycle, and speed-up in virtual time")
        _print_cells([*cells, mean] if len(cells) > 1 else cells, rules)
    _print_alone(rules)
    _print_gains(rules)
    _print_runs(rules)
    _print_times(rules)


def _print_cells(cells: list[RuleCell], rules: Rules) -> None:
    headings = ("text", "length", *RULES, *(f"{rule} x" for rule in RULES))
    rows = []
    for cell in cells:
        for length in rules.lengths:
            points = [cell.at(rule, length) for rule in RULES]
            rows.append((
                cell.text if length == rules.lengths[0] else "", str(length),
                *(number(1 + point.accepted if point else None) for point in points),
                *(number(point.speedup if point else None, ".2f", "x") for point in points),
            ))  # fmt: skip
        best = [cell.best(rule) for rule in RULES]
        rows.append(("", "best", *map(_length, best), *(number(_most(point), ".2f", "x") for point in best)))
    print_table(headings, rows, right=headings[1:], whole=headings)


def _length(best: RulePoint | None) -> str:
    """What automatic lengths would come to: no draft at all is a choice too."""
    return MISSING if best is None else str(best.length) if (best.speedup or 0) > 1 else "none"


def _most(best: RulePoint | None) -> float | None:
    return None if best is None else max(1.0, best.speedup or 0)


def _print_alone(rules: Rules) -> None:
    click.echo(
        "\nOne drafted token, how often it stands: sampled (rejection, block), with shared noise (coupled), argmax"
    )
    headings = ("text", "temperature", "places", "sampled", "shared noise", "argmax")
    rows = [
        (cell.text, f"{cell.temperature:g}", str(cell.places),
         *(number(share, ".3f") for share in (cell.minima, cell.agreement, cell.argmax)))
        for cell in rules.cells
    ]  # fmt: skip
    print_table(headings, rows, right=headings[1:])


def _print_gains(rules: Rules) -> None:
    gains = [gain for gain in rules.gains if gain.temperature is None]
    if not gains:
        return
    click.echo("\nTokens per cycle over those of rejection, at the same places with the same drafts")
    rows = [
        (gain.rule, str(gain.length), number(gain.ratio.value, ".3f", "x"), between(gain.ratio.low, gain.ratio.high, 3))
        for gain in gains
    ]
    print_table(("rule", "length", "ratio", "95 %"), rows, right=("length", "ratio", "95 %"))


def _print_runs(rules: Rules) -> None:
    if not rules.runs:
        return
    click.echo("\nBy the wall clock, over plain decoding at the same temperature")
    headings = ("temperature", "rule", "length", "speed-up", "95 %", "tokens/cycle", "answers")
    rows = [
        (f"{run.temperature:g}", run.rule, str(run.length), number(run.wall.value, ".2f", "x"),
         between(run.wall.low, run.wall.high), number(run.tokens_per_cycle), str(run.answers))
        for run in rules.runs
    ]  # fmt: skip
    print_table(headings, rows, right=[one for one in headings if one != "rule"])


def _print_times(rules: Rules) -> None:
    if not rules.times:
        return
    click.echo(f"\nArithmetic a drafted token, in ms, over a vocabulary of {rules.times[0].vocab:,}")
    headings = ("filters", "laws of both", *(f"and {rule}" for rule in RULES))
    rows = [(one.filters, f"{one.laws:.3f}", *(f"{one.rules[rule]:.3f}" for rule in RULES)) for one in rules.times]
    print_table(headings, rows, right=headings[1:])
