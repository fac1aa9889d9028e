"""`localspec bench`: paired measurements on this machine."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import options
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.cli.options import Number

if TYPE_CHECKING:
    from localspec.bench.figures import Figures
    from localspec.bench.workloads import Task


@click.group()
def bench() -> None:
    """Measure on this machine, plain decoding and speculation side by side."""


@bench.command("figures")
@options.model_options
@click.option(
    "--workload", type=click.Path(path_type=Path), metavar="FILE", help="Requests to use, as JSON lines.  [built in]"
)
@click.option("--repeats", type=Number(int, 1, 99), default=3, show_default=True, help="Rounds of every comparison.")
@click.option("--max-tokens", type=Number(int, 2), default=160, show_default=True, help="Longest answer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def figures_command(workload: Path | None, repeats: int, max_tokens: int, as_json: bool, **values: Any) -> int:
    """The figures localspec promises: overhead, code edits by lookup, second turn, memory, start-up.

    Takes about ten minutes on two cores with the starter pair; interrupted, it prints what it has.
    """
    from localspec.bench import figures
    from localspec.chat.conversation import Conversation
    from localspec.chat.templates import ChatTemplate
    from localspec.chat.thinking import plan
    from localspec.cli import session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, say

    for name in ("speculate", "draft_length"):
        if values[name] is not None:
            option = name.replace("_", "-")
            raise click.UsageError(f"bench compares every way to speculate: --{option} does not belong here")
    tasks = _tasks(workload)
    # Whatever the menu or the settings suggest: a draft that is at hand is measured.
    choice = session.choose(values | {"speculate": "auto"})
    client, info = session.start(choice, StatusLine())
    files = [Path(file) for file in (choice.config.target, choice.config.draft) if file]
    thinking = plan(ChatTemplate.of(info), "off")

    def prompting(turns: Any) -> Any:
        talk = Conversation()
        for number, text in enumerate(turns):
            (talk.answered if number % 2 else talk.ask)(text)
        return talk.prompt(ChatTemplate.of(info), thinking)

    measured = figures.Figures(info)
    try:
        with _Bar() as bar, Interrupts(client.cancel) as interrupts:
            setting = figures.Setting(
                client, info, files[: 1 if info.draft is None else 2], tasks, prompting, repeats, max_tokens,
                choice.config.kv_type, lambda: interrupts.hit, bar.show,
            )  # fmt: skip
            figures.measure(measured, setting)
    finally:
        client.close()
        _remember(choice.name, measured)
        _print(measured, as_json)
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def _tasks(workload: Path | None) -> "list[Task]":
    from localspec.bench import builtin, workloads

    if workload is None:
        return list(builtin.TASKS)
    try:
        return workloads.read(workload)
    except workloads.WorkloadError as error:
        raise Failure(str(error)) from None


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


def _print(figures: "Figures", as_json: bool) -> None:
    from localspec.bench import report
    from localspec.cli.output import print_json, print_table

    if as_json:
        print_json(report.as_json(figures))
        return
    info = figures.info
    click.echo(f"{_shown(info.target)} with {_shown(info.draft or 'no draft')}, {info.threads} threads, context "
               f"{info.context}, flash attention {info.flash_attn}")  # fmt: skip
    click.echo(f"{_shown(info.library)}\n")
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


def _shown(text: str) -> str:
    from localspec.cli.terminal import one_line

    return one_line(text)


class _Bar:
    """A progress bar on stderr; where no person looks, nothing is drawn."""

    def __enter__(self) -> "_Bar":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self._progress = Progress(
            BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None)
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, total: int, text: str) -> None:
        self._progress.update(self._task, completed=done, total=total, description=_shown(text))
