"""`localspec bench saturation`: where this machine's spare compute ends."""

from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_common as common
from localspec.cli import options
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
@common.json_option
def saturation(
    sequences: tuple[int, ...],
    lengths: tuple[int, ...],
    repeats: int,
    context_tokens: int,
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

    refuse_ways(values, "bench saturation verifies drafts of every length")
    if values["draft"]:
        raise click.UsageError("bench saturation loads no draft: its drafts cost nothing")
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
        if found.passes:
            _print(found, plan, as_json)
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def as_json_value(found: "Saturation", plan: "Plan") -> dict[str, Any]:
    """All figures as JSON values: `cycles_per_s` of all sequences together, `break_even` in tokens per cycle, and the
    acceptance rate that gives them (null: not even perfect drafts do)."""
    return {
        **found.facts,
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


def _print(found: "Saturation", plan: "Plan", as_json: bool) -> None:
    from localspec.cli.output import print_json, print_table

    if as_json:
        print_json(as_json_value(found, plan))
        return
    facts = found.facts
    click.echo(common.shown(f"{facts['target']}, {facts['threads']} threads, {plan.context} tokens a sequence, "
                        f"flash attention {facts['flash_attn']}"))  # fmt: skip
    click.echo(f"{common.shown(facts['library'])}\n")
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
