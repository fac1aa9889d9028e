"""`localspec bench`: paired measurements on this machine. Its sub-commands are imported when they are called."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from localspec.cli import bench_common as common
from localspec.cli import options
from localspec.cli.lazy import LazyGroup
from localspec.cli.options import Number

COMMANDS = {
    "k": (
        "localspec.cli.bench_k:k",
        "Speed-up against draft length, beside the theory's curve.",
    ),
    "drafts": (
        "localspec.cli.bench_drafts:drafts",
        "The drafts at hand for one target, ranked by the wall clock.",
    ),
    "rules": (
        "localspec.cli.bench_rules:rules",
        "The verification rules at the same places of the same texts.",
    ),
    "saturation": (
        "localspec.cli.bench_saturation:saturation",
        "Several sequences in a pass: where drafts stop paying.",
    ),
    "figures": (
        "localspec.cli.bench_figures:figures_command",
        "What localspec promises: overhead, edits, memory.",
    ),
    "report": ("localspec.cli.bench_report:report_command", "Show a saved report again, or make a page of it."),
}
"""Sub-commands by name: where each is, and its help in the list."""


class Bench(LazyGroup):
    """The measurements."""

    places = COMMANDS


@click.group(cls=Bench, invoke_without_command=True)
@options.model_options
@common.workload_option
@click.option(
    "--full", is_flag=True, help="All modes and rules, temperatures 0 and 1, all prompts, more rounds: hours."
)
@click.option("--prompts", type=Number(int, 1), help="Prompts of each category.  [default: 1; with --workload all]")
@click.option("--repeats", type=Number(int, 1, 99), help="Rounds of every comparison.  [default: 3]")
@click.option("--max-tokens", type=Number(int, 2), help="Longest answer.  [default: 64]")
@click.option("--temp", type=Number(float, 0.0), multiple=True, help="Temperature; may be repeated.  [default: 0]")
@click.option(
    "--cost-curve",
    metavar="FILE|amx|avx512|avx2",
    help="Price virtual time by this curve (JSON, or a saved report) instead of the one measured here.",
)
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with plots.")
@click.option("--save", type=click.Path(path_type=Path), metavar="FILE", help="Save the report (`bench report FILE`).")
@click.option("--verbose", is_flag=True, help="A row a prompt too.")
@click.option(
    "--peer", "peers", multiple=True, metavar="[NAME=]URL[,URL]",
    help="Compare with a running llama-server instead; may be repeated, once a setting (docs/benchmarks.md).",
)  # fmt: skip
@click.option("--peer-cold", is_flag=True, help="The peers read every prompt anew (cache_prompt: false).")
@common.json_option
@click.pass_context
def bench(ctx: click.Context, /, **given: Any) -> int:
    """Measure on this machine, plain decoding and speculation side by side.

    Without a command: one request of each of eight kinds, answered plainly and with --speculate (auto), three times
    each, in turns. Under ten minutes on two cores with the starter pair. Two clocks: the wall clock shows that it is
    real; virtual time, the same steps priced by the measured cost of a pass, resolves single per cents.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options(ctx)
        return 0
    peers, cold = given.pop("peers"), given.pop("peer_cold")
    if peers:
        from localspec.cli import bench_peer

        return bench_peer.compare(peers, cold, given)
    from localspec.cli import bench_output, bench_suite

    output = bench_output.Output(given.pop("as_json"), given.pop("verbose"), given.pop("save"), given.pop("html"))
    names = ("full", "workload", "prompts", "repeats", "max_tokens", "cost_curve")
    wishes = bench_suite.Wishes(
        temperatures=given.pop("temp"), command=common.command_line(ctx), output=output,
        **{name: given.pop(name) for name in names},
    )  # fmt: skip
    return bench_suite.compare(wishes, given)


def _refuse_options(ctx: click.Context) -> None:
    """An option before a command would be lost without a word."""
    for option in ctx.command.params:
        if option.name and ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} belongs after the command: bench {ctx.invoked_subcommand} ...")
