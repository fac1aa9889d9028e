"""A report as tables for a terminal."""

import click

from localspec.bench import verdict, where
from localspec.bench.results import ModeReport, Report, Row
from localspec.cli.bench_common import shown
from localspec.cli.output import print_table

MISSING = "–"

HEADINGS = (
    "category", "prompts", "tokens", "wall clock", "95 %", "virtual", "bound", "of bound", "accepted", "tokens/cycle",
    "drafted by",
)  # fmt: skip


LEGEND = """\
Speed-ups are to plain decoding of the same target. Wall clock: medians over the rounds, geometric means over prompts,
with a bootstrap interval. Virtual: the same cycles priced by the cost curve. Bound: lookup with perfect draft lengths
on the same text."""


def print_report(report: Report, *, verbose: bool = False) -> None:
    """All of a report; `verbose` adds a row a prompt."""
    for line in where.words(report.machine):
        click.echo(shown(line))
    curve = f"{report.curve.name}" if report.curve else "no cost curve: no virtual time"
    click.echo(
        f"{shown(report.workload)} workload, {report.rounds} rounds of at most {report.max_tokens} tokens, "
        f"{shown(report.date)}; virtual time: {shown(curve)}"
    )
    if warning := where.busy(report.load, report.machine.cores):
        click.echo(f"When it began {warning}.")
    if not report.complete:
        click.echo("Stopped before its end: this is what was measured until then.")
    if not report.modes:
        click.echo("\nNothing was compared.")
    for mode in report.modes:
        _print_mode(mode, verbose)
    if len(report.modes) > 1:
        click.echo("\nGeometric means")
        print_table(
            ("mode", *HEADINGS[1:]), [_cells(mode.name, mode.mean) for mode in report.modes],
            right=HEADINGS[1:-1], whole=("mode", *HEADINGS[1:-1]),
        )  # fmt: skip
    click.echo(f"\n{LEGEND}")


def _print_mode(mode: ModeReport, verbose: bool) -> None:
    click.echo(f"\n{shown(mode.name)}")
    rows = [_cells(row.category, row) for row in mode.categories]
    print_table(HEADINGS, [*rows, _cells(mode.mean.category, mode.mean)], right=HEADINGS[1:-1], whole=HEADINGS[:-1])
    if verbose and mode.prompts:
        click.echo()
        print_table(
            ("prompt", *HEADINGS[1:], "rounds"),
            [(*_cells(f"{row.id}", row), " ".join(f"{one:.2f}" for one in row.speedups)) for row in mode.prompts],
            right=HEADINGS[1:-1], whole=HEADINGS[1:-1],
        )  # fmt: skip
    click.echo(shown(verdict.slower(mode)))


def _cells(name: str, row: Row) -> tuple[str, ...]:
    ends = MISSING if row.wall.low is None or row.wall.high is None else f"{row.wall.low:.2f}–{row.wall.high:.2f}"
    cycles = sum(row.drafters.values())
    drafted = ", ".join(f"{who} {count / cycles:.0%}" for who, count in row.drafters.items() if who != "none")
    return (
        name, str(row.prompts), str(row.tokens), times(row.wall.value), ends, times(row.virtual), times(row.bound),
        share(row.of_bound), share(row.acceptance_rate),
        MISSING if row.tokens_per_cycle is None else f"{row.tokens_per_cycle:.2f}", drafted or MISSING,
    )  # fmt: skip


def times(ratio: float | None) -> str:
    """A speed-up in words."""
    return MISSING if ratio is None else f"{ratio:.2f}x"


def share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"
