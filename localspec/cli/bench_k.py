"""`localspec bench k`: speed-up against draft length, beside what the theory says."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_common as common
from localspec.cli import options
from localspec.cli.bench_about import About, check_page, html_option, write_page
from localspec.cli.bench_words import Numbers, bar, number, refuse_ways
from localspec.cli.errors import INTERRUPTED
from localspec.cli.options import Number
from localspec.engine.events import MODEL_DRAFTERS
from localspec.engine.requests import MAX_DRAFT_LENGTH, Speculate

if TYPE_CHECKING:
    from localspec.bench.ksweep import Point

THEORY, ONE = "◆", "┊"


@click.command("k")
@options.model_options
@common.workload_option
@click.option(
    "--lengths", type=Numbers(1, MAX_DRAFT_LENGTH), default="1,2,3,4,6,8,12,15", show_default=True,
    help="Draft lengths, each used in every cycle.",
)  # fmt: skip
@click.option(
    "--drafter", "drafters", type=click.Choice(("lookup", *MODEL_DRAFTERS)), multiple=True,
    help="May be given twice.  [default: lookup, and the model drafter that is loaded, if any]",
)  # fmt: skip
@click.option(
    "--prompts", type=Number(int, 1), default=3, show_default=True,
    help="How many requests, each the first of a category.",
)  # fmt: skip
@common.repeats_option(2)
@common.max_tokens_option(48)
@html_option
@common.json_option
def k(
    workload: Path | None,
    html: Path | None,
    lengths: tuple[int, ...],
    drafters: tuple[Speculate, ...],
    prompts: int,
    repeats: int,
    max_tokens: int,
    as_json: bool,
    **values: Any,
) -> int:
    """Speed-up against draft length K, greedy, each K against plain decoding of the same prompt in the same round.

    Beside it stands the theory's curve: (1 - a^(K+1)) / (1 - a) expected tokens a cycle over what a cycle costs, with
    the acceptance rate a and the costs measured in the same answers.

    Takes about five minutes on two cores with the starter pair, half of it with one drafter; interrupted, it prints
    what it has.
    """
    from localspec.bench import ksweep, paired
    from localspec.cli import session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, say

    refuse_ways(values, "bench k compares draft lengths")
    check_page(html)
    tasks = ksweep.few(common.tasks_of(workload), prompts)
    models = [drafter for drafter in drafters if drafter in MODEL_DRAFTERS]
    if len(models) > 1:
        raise click.UsageError(
            f"--drafter {' and '.join(models)}: an engine has one model drafter; ask for one at a time"
        )
    asked: Speculate = "auto" if not drafters else models[0] if models else "lookup"
    choice = session.choose(values | {"speculate": asked})
    longest = max(*lengths, choice.config.max_draft_length)
    choice = replace(choice, config=replace(choice.config, max_draft_length=longest))
    client, info = session.start(choice, StatusLine())
    known: list[Speculate] = list(drafters) or ["lookup", *([info.drafter] if info.drafter else [])]
    plan = paired.Plan(tasks, ksweep.modes(known, lengths), repeats, max_tokens)
    measured = paired.Measured()
    names = [f"{task.id}, {mode.name}" for task, _, mode in plan.order()]
    try:
        common.check_room(tasks, client, info)
        with common.Bar() as progress, Interrupts(client.cancel) as interrupts:
            progress.show(0, plan.answers, names[0])
            answers = paired.run(client, plan, common.prompting_for(info), lambda: interrupts.hit)
            for done, answer in enumerate(answers, 1):
                measured.runs.append(answer)
                progress.show(done, plan.answers, names[done] if done < len(names) else "")
    finally:
        client.close()
        if measured.runs:
            curves = {drafter: ksweep.points(measured, [drafter], lengths) for drafter in known}
            about = About.now(info, choice.config)
            _print(curves, about, [task.id for task in tasks], as_json)
            title = f"Speed-up against draft length: {info.target}"
            write_page(html, title, about, [_chart(drafter, curve) for drafter, curve in curves.items()])
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def _print(curves: "dict[Speculate, list[Point]]", about: About, prompts: list[str], as_json: bool) -> None:
    from localspec.cli.output import print_json

    if as_json:
        points = [asdict(point) for curve in curves.values() for point in curve]
        print_json(about.as_json() | {"prompts": prompts, "points": points})
        return
    for line in about.lines():
        click.echo(line)
    click.echo(common.shown(f"prompts: {', '.join(prompts)}"))
    for drafter, curve in curves.items():
        click.echo()
        _print_curve(drafter, curve)
    click.echo(f"\nBars: measured speed-up; {THEORY} theory, {ONE} plain decoding. Costs are in plain passes.")


def _chart(drafter: str, curve: "list[Point]") -> tuple[str, str]:
    """The picture and its table."""
    from localspec.bench.linechart import Line, chart, table

    lengths = [point.length for point in curve]
    lines = [Line("measured", [point.speedup for point in curve]), Line("theory", [point.theory for point in curve])]
    words = f"draft length ({drafter}); speed-up over plain decoding, which is the line at 1"
    more = [Line("accepted", [point.acceptance_rate for point in curve]),
            Line("tokens/cycle", [point.tokens_per_cycle for point in curve]),
            Line("verify cost", [point.verify_cost for point in curve]),
            Line("draft cost", [point.draft_cost for point in curve])]  # fmt: skip
    picture = chart(f"Speed-up against draft length, {drafter}", words, lengths, lines, rules=(1.0,))
    return picture, table("draft length", lengths, [*lines, *more])


def _print_curve(drafter: str, curve: "list[Point]") -> None:
    from localspec.bench import ksweep
    from localspec.cli.output import print_table

    top = max((value for point in curve for value in (point.speedup, point.theory) if value is not None), default=1.0)
    top = max(top, 1.0)
    measured, expected = ksweep.best(curve), ksweep.best(curve, by_theory=True)
    print_table(
        (drafter, "speed-up", "theory", "", "accepted", "tokens/cycle", "cycles drafted", "verify", "draft"),
        [
            (
                str(point.length), number(point.speedup, ".2f", "x"), number(point.theory, ".2f", "x"),
                bar(point.speedup, top, {ONE: 1.0, THEORY: point.theory}), number(point.acceptance_rate, ".0%"),
                number(point.tokens_per_cycle), number(point.drafted, ".0%"), number(point.verify_cost),
                number(point.draft_cost),
            )
            for point in curve
        ],
        right=(drafter, "speed-up", "theory", "accepted", "tokens/cycle", "cycles drafted", "verify", "draft"),
    )  # fmt: skip
    if measured is not None and expected is not None:
        click.echo(fastest(measured, expected))


def fastest(measured: "Point", expected: "Point") -> str:
    """The best length by the clock and by the theory; where it is no gain, that comes first."""
    best = f"{measured.length} ({measured.speedup:.2f}x); by the theory {expected.length} ({expected.theory:.2f}x)"
    if round(measured.speedup or 0.0, 2) <= 1:
        return f"no length is faster than plain decoding; the best is {best}"
    return f"fastest: {best}"
