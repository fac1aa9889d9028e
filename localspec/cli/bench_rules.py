"""`localspec bench rules`: the three verification rules at the same places of the same texts."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_common as common
from localspec.cli import options
from localspec.cli.bench_about import About, check_page, html_option, write_page
from localspec.cli.bench_words import Numbers, refuse_ways
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.cli.options import DEFAULTS, Number
from localspec.engine.requests import MAX_DRAFT_LENGTH

if TYPE_CHECKING:
    from localspec.bench.rule_results import Rules


@click.command("rules")
@options.model_options
@click.option(
    "--temp", "temperatures", type=Number(float, 0.0, above=True), multiple=True,
    help="Temperature; may be repeated.  [default: 0.3, 0.7, 1]",
)  # fmt: skip
@click.option("--top-k", type=Number(int, 0), default=DEFAULTS.top_k, show_default=True, help="0: off.")
@click.option("--top-p", type=Number(float, 0, 1), default=DEFAULTS.top_p, show_default=True, help="1: off.")
@click.option("--min-p", type=Number(float, 0, 1), default=DEFAULTS.min_p, show_default=True, help="0: off.")
@click.option(
    "--lengths", type=Numbers(1, MAX_DRAFT_LENGTH), default="1,2,3,5,7", show_default=True, help="Draft lengths."
)
@click.option(
    "--places", type=Number(int, 1, 4096), default=32, show_default=True,
    help="Cycles begun in each text, at every third token.",
)  # fmt: skip
@click.option(
    "--wall-length", type=Number(int, 1, MAX_DRAFT_LENGTH), default=3, show_default=True,
    help="Draft length of the answers by the wall clock.",
)  # fmt: skip
@click.option(
    "--repeats", type=Number(int, 0, 99), default=2, show_default=True, help="Rounds by the wall clock; 0: none."
)
@common.max_tokens_option(48)
@click.option(
    "--cost-curve", metavar="FILE|amx|avx512|avx2", help="Price virtual time by this curve instead of the one here."
)
@click.option(
    "--into", type=click.Path(path_type=Path), metavar="FILE",
    help="Add the comparison to this saved report (`bench --save`), whose page then shows it.",
)  # fmt: skip
@html_option
@common.json_option
def rules(
    temperatures: tuple[float, ...],
    lengths: tuple[int, ...],
    places: int,
    wall_length: int,
    repeats: int,
    max_tokens: int,
    cost_curve: str | None,
    into: Path | None,
    html: Path | None,
    as_json: bool,
    **values: Any,
) -> int:
    """Accepted tokens per cycle and speed-up of the verification rules (rejection, block, coupled) with a draft model,
    on code, chat and story, at three temperatures.

    A text is sampled from the target; at every third token of it the draft model draws a draft, and what each rule
    keeps of it on average is reckoned, not sampled. Then the rules answer in turns, by the wall clock. All are exact:
    they differ in speed alone.

    Takes about five minutes on two cores with the starter pair; interrupted, it prints what it has.
    """
    from localspec.bench import rule_page
    from localspec.bench import rules as bench
    from localspec.cli import bench_output, bench_report, bench_suite, session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, say
    from localspec.engine.requests import SamplerSettings

    refuse_ways(values, "bench rules judges what a draft model drew")
    check_page(html)
    report = bench_report.read(into) if into else None
    curve = bench_suite.curve_of(cost_curve)
    sampling = SamplerSettings(**{name: values.pop(name) for name in ("top_k", "top_p", "min_p")})
    choice = session.choose(values | {"speculate": "auto"})
    longest = max(*lengths, wall_length, choice.config.max_draft_length)
    choice = replace(choice, config=replace(choice.config, max_draft_length=longest))
    client, info = session.start(choice, StatusLine())
    found = bench.Found()
    try:
        if info.drafter is None:
            raise Failure(f"{info.target} was loaded without a draft model: give --draft, or a pair that has one")
        setting = bench.Setting(
            client, common.prompting_for(info), info.drafter, temperatures=temperatures or bench.TEMPERATURES,
            lengths=lengths, text_tokens=1 + places * bench.STRIDE, wall_length=wall_length, rounds=repeats,
            max_tokens=max_tokens, sampling=sampling,
        )  # fmt: skip
        with common.Bar() as bar, Interrupts(client.cancel) as interrupts:
            if curve is None:
                bench_suite.calibrate(client, bar, lambda: interrupts.hit)
            bench.measure(found, setting, lambda: interrupts.hit, bar.part)
    finally:
        pricing = curve or bench_suite.priced_here(client, found.measured)
        client.close()
        if found.known:
            about = About.now(info, choice.config)
            result = found.report(setting, pricing)
            _give(result, about, as_json)
            title = f"Verification rules: {info.target}"
            write_page(html, title, about, rule_page.charts(result), rule_page.told(result))
            if report is not None and into is not None:
                bench_output.save(replace(report, rules=result), into)
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def _give(result: "Rules", about: About, as_json: bool) -> None:
    from localspec.cli.bench_rules_table import print_rules
    from localspec.cli.output import print_json

    if as_json:
        print_json(about.as_json() | asdict(result))
        return
    for line in about.lines():
        click.echo(line)
    print_rules(result)
