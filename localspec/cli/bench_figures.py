"""`localspec bench figures`: what localspec promises about itself, measured on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_about, options
from localspec.cli import bench_common as common
from localspec.cli.errors import INTERRUPTED

if TYPE_CHECKING:
    from localspec.bench.figures import Figures


@click.command("figures")
@options.model_options
@common.workload_option
@common.repeats_option(3)
@common.max_tokens_option(160)
@common.json_option
def figures_command(workload: Path | None, repeats: int, max_tokens: int, as_json: bool, **values: Any) -> int:
    """The figures localspec promises: overhead, code edits by lookup, second turn, memory, start-up.

    Takes about ten minutes on two cores with the starter pair; interrupted, it prints what it has.
    """
    from localspec.bench import builtin, figures
    from localspec.cli import session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, say

    for name in ("speculate", "draft_length"):
        if values[name] is not None:
            option = name.replace("_", "-")
            raise click.UsageError(f"bench compares every way to speculate: --{option} does not belong here")
    tasks = common.tasks_of(workload) if workload else list(builtin.FIGURE_TASKS)
    # Whatever the menu or the settings suggest: a draft that is at hand is measured.
    choice = session.choose(values | {"speculate": "auto"})
    client, info = session.start(choice, StatusLine())
    files = [Path(file) for file in (choice.config.target, choice.config.draft) if file]
    measured = figures.Figures(info)
    try:
        with common.Bar() as bar, Interrupts(client.cancel) as interrupts:
            setting = figures.Setting(
                client, info, files[: 1 if info.draft is None else 2], tasks, common.prompting_for(info), repeats,
                max_tokens, choice.config.kv_type, lambda: interrupts.hit, bar.show,
            )  # fmt: skip
            figures.measure(measured, setting)
    finally:
        client.close()
        _remember(choice.name, measured)
        _print(measured, as_json, bench_about.About.now(info, choice.config))
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def _remember(pair: str, figures: "Figures") -> None:
    """Keep the speed-up for the menu, which shows it beside the pair."""
    from localspec.cli.terminal import say
    from localspec.models import catalog, measured

    speedup = figures.edit_speedup
    if speedup is None or pair not in catalog.load().pairs:
        return
    try:
        measured.remember(pair, {"edits": round(speedup, 3)})
    except OSError as error:
        say(f"the speed-up could not be kept for the menu: {error.strerror or error}")


def _print(figures: "Figures", as_json: bool, about: bench_about.About) -> None:
    from localspec.bench import report
    from localspec.cli.output import print_json, print_table

    if as_json:
        print_json(about.as_json() | report.as_json(figures))
        return
    click.echo("\n".join(about.lines()) + "\n")
    verdicts = {True: "yes", False: "NO", None: ""}
    print_table(
        ("figure", "measured", "bar", "holds"),
        [(row.name, row.value, row.bar, verdicts[row.holds]) for row in report.rows(figures)],
        right=("measured",),
    )
    if comparisons := figures.comparisons():
        click.echo()
        print_table(
            ("code edit", "mode", "speed-up", "rounds", "accepted", "tokens/cycle"),
            [
                (
                    each.task.id, each.mode.name, report.times(each.speedup),
                    " ".join(f"{ratio:.2f}" for ratio in each.speedups) or report.MISSING,
                    report.MISSING if each.acceptance_rate is None else f"{each.acceptance_rate:.0%}",
                    report.MISSING if each.tokens_per_cycle is None else f"{each.tokens_per_cycle:.2f}",
                )
                for each in comparisons
            ],
            right=("speed-up", "accepted", "tokens/cycle"),
        )  # fmt: skip
