"""`localspec bench saturation`: where this machine's spare compute ends."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_common as common
from localspec.cli import options
from localspec.cli.bench_about import About, check_page, html_option, write_page
from localspec.cli.bench_words import MISSING, Numbers, bar, number, refuse_ways
from localspec.cli.errors import INTERRUPTED
from localspec.cli.options import Number
from localspec.engine.requests import MAX_DRAFT_LENGTH

if TYPE_CHECKING:
    from localspec.bench.saturation import Plan, Saturation


@click.command("saturation")
@options.model_options
@click.option("--sequences", type=Numbers(1, 64), default="1,2,4,8,16", show_default=True, help="How many in a pass.")
@click.option(
    "--lengths", type=Numbers(1, MAX_DRAFT_LENGTH), default="3,7", show_default=True, help="Draft lengths to verify."
)
@common.repeats_option(5)
@click.option(
    "--context-tokens", type=Number(int, 1, 65536), default=256, show_default=True, help="What every sequence holds."
)
@html_option
@common.json_option
def saturation(
    sequences: tuple[int, ...],
    lengths: tuple[int, ...],
    repeats: int,
    context_tokens: int,
    html: Path | None,
    as_json: bool,
    **values: Any,
) -> int:
    """Tokens/s of several sequences decoded together, plain and with drafts to verify: where spare compute ends.

    Takes two to three minutes on two cores with the starter's target; interrupted, it prints what it has. The drafts
    are made of nothing and all taken back, so only the target's passes are timed.
    """
    from localspec.bench import saturation as bench
    from localspec.cli import session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import say

    check_page(html)
    refuse_ways(values, "bench saturation verifies drafts of every length")
    if values["draft"]:
        raise click.UsageError("bench saturation loads no draft: its drafts cost nothing")
    if values["ctx"] is not None:
        raise click.UsageError("bench saturation: --context-tokens says what every sequence holds, not --ctx")
    choice = session.choose(values | {"speculate": "off"})
    plan = bench.Plan(choice.config, sequences, lengths, repeats, context_tokens)
    found = bench.Saturation()
    measurement = bench.Measurement(plan)
    try:
        with common.Bar() as progress, Interrupts(measurement.stop) as interrupts:
            progress.show(0, plan.passes, "loading and reading a text")
            for one in measurement.run(found):
                text = f"{one.sequences} sequences, " + (f"draft length {one.length}" if one.length else "plain")
                progress.show(len(found.passes), plan.passes, text)
    finally:
        if found.info is not None and found.passes:
            about = About.now(replace(found.info, context=context_tokens), choice.config)
            _print(found, plan, about, as_json)
            write_page(html, f"Where spare compute ends: {found.info.target}", about, charts(found, plan))
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def as_json_value(found: "Saturation", plan: "Plan") -> dict[str, Any]:
    """All figures as JSON values: `cycles_per_s` of all sequences together, `break_even` in tokens per cycle, and the
    acceptance rate that gives them (null: not even perfect drafts do)."""
    return {
        "context": plan.context,
        "sequences": [
            {
                "sequences": count,
                "plain_tokens_per_s": found.cycles_per_s(count, 0),
                "plain_ms": found.ms(count, 0),
                "drafts": [
                    {
                        "length": length,
                        "ms": found.ms(count, length),
                        "cycles_per_s": found.cycles_per_s(count, length),
                        "break_even": found.break_even(count, length),
                        "acceptance_needed": found.acceptance(count, length),
                    }
                    for length in plan.lengths
                ],
            }
            for count in plan.sequences
        ],
    }


def charts(found: "Saturation", plan: "Plan") -> list[tuple[str, str]]:
    """The pictures, each with its table: plain tokens/s, and for every length what breaks even."""
    from localspec.bench.linechart import Line, chart, table

    counts = list(plan.sequences)
    lines = [Line("plain", [found.cycles_per_s(count, 0) for count in counts])]
    made = [(chart("Plain tokens/s of several sequences together", "sequences in a pass; tokens/s", counts, lines),
             table("sequences", counts, lines))]  # fmt: skip
    for length in plan.lengths:
        lines = [Line("to break even", [found.break_even(count, length) for count in counts])]
        words = f"sequences in a pass; tokens a cycle must emit, of at most {length + 1} (the line)"
        picture = chart(f"Tokens per cycle to break even, drafts of {length}", words, counts, lines,
                        rules=(float(length + 1),))  # fmt: skip
        more = [Line("cycles/s", [found.cycles_per_s(count, length) for count in counts]),
                Line("acceptance needed", [found.acceptance(count, length) for count in counts])]  # fmt: skip
        made.append((picture, table("sequences", counts, [*lines, *more])))
    return made


def _print(found: "Saturation", plan: "Plan", about: About, as_json: bool) -> None:
    from localspec.cli.output import print_json, print_table

    if as_json:
        print_json(about.as_json() | as_json_value(found, plan))
        return
    for line in about.lines():
        click.echo(line)
    click.echo()
    plain = [found.cycles_per_s(count, 0) for count in plan.sequences]
    top = max((speed for speed in plain if speed is not None), default=0.0)
    print_table(
        ("sequences", "plain tokens/s", "", "over one"),
        [
            (
                str(count), number(speed, ".1f"), bar(speed, top),
                number(speed / plain[0] if speed is not None and plain[0] else None, ".2f", "x"),
            )
            for count, speed in zip(plan.sequences, plain, strict=True)
        ],
        right=("sequences", "plain tokens/s", "over one"),
    )  # fmt: skip
    for length in plan.lengths:
        click.echo(f"\nDrafts of {length}: a cycle emits between 1 and {length + 1} tokens")
        print_table(
            ("sequences", "cycles/s", "tokens per cycle to break even", f"of {length + 1}", "acceptance needed"),
            [
                (
                    str(count), number(found.cycles_per_s(count, length), ".1f"),
                    number(found.break_even(count, length)),
                    bar(found.break_even(count, length), length + 1), _needed(found, count, length),
                )
                for count in plan.sequences
            ],
            right=("sequences", "cycles/s", "tokens per cycle to break even", "acceptance needed"),
        )  # fmt: skip
        click.echo(verdict(found, plan, length))


def _needed(found: "Saturation", count: int, length: int) -> str:
    if found.break_even(count, length) is None:
        return MISSING
    share = found.acceptance(count, length)
    return "cannot pay" if share is None else f"{share:.0%}"


def verdict(found: "Saturation", plan: "Plan", length: int) -> str:
    """In a sentence up to how many sequences drafts of `length` can pay."""
    known = [count for count in plan.sequences if found.break_even(count, length) is not None]
    paying = [count for count in known if found.acceptance(count, length) is not None]
    if not known:
        return "Nothing was measured."
    if not paying:
        return f"Drafts of {length} cannot pay here: the pass that verifies them costs more than they can return."
    most = max(paying)
    words = (
        f"With {most} {'sequence' if most == 1 else 'sequences'} drafts of {length} pay from "
        f"{found.acceptance(most, length):.0%} accepted on"
    )
    lost = [count for count in known if count > most]
    return f"{words}; with {min(lost)} they cannot pay." if lost else f"{words}."
