"""A report as tables for a terminal; one of 80 columns shows the columns that matter most."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from localspec.bench import verdict, where
from localspec.bench.results import ModeReport, Report, Row
from localspec.cli.bench_common import shown
from localspec.cli.bench_rules_table import print_rules
from localspec.cli.output import PIPE_WIDTH, print_table
from localspec.cli.terminal import is_terminal

MISSING = "–"

COLUMNS = (
    "prompts", "tokens", "wall", "95 %", "virtual", "bound", "of bound", "accepted", "tokens/cycle", "drafted by",
)  # fmt: skip

FEW = ("tokens", "wall", "95 %", "virtual", "bound", "of bound", "accepted")
"""With a name of 18 letters these are 80 columns wide."""

ENOUGH = 118
"""Columns of a terminal in which all of them find room."""

LEGEND = (
    "Speed-ups are to plain decoding of the same target. Wall: by the wall clock, medians over the rounds, geometric "
    "means over prompts, with a bootstrap interval. Virtual: the same cycles priced by the cost curve. Bound: lookup "
    "with perfect draft lengths on the same text, by its tokens alone: renamed words, which auto finds too, are not in "
    "it."
)


def print_report(report: Report, *, verbose: bool = False) -> None:
    """All of a report; `verbose` adds a row a prompt."""
    for line in where.words(report.machine):
        _paragraph(line)
    curve = report.curve.name if report.curve else "no cost curve"
    _paragraph(
        f"{report.workload} workload, {report.rounds} rounds of at most {report.max_tokens} tokens, {report.date}; "
        f"virtual time: {curve}"
    )
    if warning := where.busy(report.load, report.machine.cores):
        _paragraph(f"As it began: {warning}.")
    if not report.complete:
        _paragraph("Stopped before its end: this is what was measured until then.")
    if not report.modes:
        click.echo("\nNothing was compared.")
    for mode in report.modes:
        _print_mode(mode, verbose)
    if len(report.modes) > 1:
        click.echo("\nGeometric means")
        _print_rows("mode", [(mode.name, mode.mean) for mode in report.modes])
    click.echo()
    _paragraph(LEGEND)
    if report.rules:
        click.echo("\nThe verification rules")
        print_rules(report.rules)


def _print_mode(mode: ModeReport, verbose: bool) -> None:
    click.echo(f"\n{shown(mode.name)}")
    _print_rows("category", [(row.category, row) for row in (*mode.categories, mode.mean)])
    if verbose and mode.prompts:
        click.echo()
        _print_rows("prompt", [(row.id, row) for row in mode.prompts])
    _paragraph(verdict.slower(mode))


def _print_rows(first: str, rows: Sequence[tuple[str, Row]]) -> None:
    columns = COLUMNS if _width() >= ENOUGH else FEW
    cells = [[name, *(_cells(row)[column] for column in columns)] for name, row in rows]
    figures = [column for column in columns if column != "drafted by"]
    print_table((first, *columns), cells, right=figures, whole=figures)


def _cells(row: Row) -> dict[str, str]:
    low, high, cycles = row.wall.low, row.wall.high, sum(row.drafters.values())
    drafted = ", ".join(f"{who} {count / cycles:.0%}" for who, count in row.drafters.items() if who != "none")
    return {
        "prompts": str(row.prompts),
        "tokens": str(row.tokens),
        "wall": times(row.wall.value),
        "95 %": MISSING if low is None or high is None else f"{low:.2f}–{high:.2f}",
        "virtual": times(row.virtual),
        "bound": times(row.bound),
        "of bound": share(row.of_bound),
        "accepted": share(row.acceptance_rate),
        "tokens/cycle": MISSING if row.tokens_per_cycle is None else f"{row.tokens_per_cycle:.2f}",
        "drafted by": drafted or MISSING,
    }


def times(ratio: float | None) -> str:
    """A speed-up in words."""
    return MISSING if ratio is None else f"{ratio:.2f}x"


def share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"


def _paragraph(text: str) -> None:
    """Broken between words where a person looks; a line of its own elsewhere."""
    click.echo(textwrap.fill(shown(text), _width()) if is_terminal(sys.stdout) else shown(text))


def _width() -> int:
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else PIPE_WIDTH
