"""`localspec calibrate`: measure what passes cost here, and say what that means."""

from dataclasses import asdict
from typing import Any

import click

from localspec.cli import calibrate_words as words
from localspec.cli import options
from localspec.cli.errors import INTERRUPTED
from localspec.cli.options import Number

SECONDS = 60.0


@click.command()
@options.model_options
@click.option(
    "--seconds", type=Number(float, 1, 3600), default=SECONDS, show_default=True, help="Time for it, at most about."
)
@click.option("--json", "as_json", is_flag=True, help="The whole curve as one JSON value.")
def calibrate(seconds: float, as_json: bool, **values: Any) -> int:
    """Measure what a pass of 1 to 32 tokens costs on this machine, at a short and at a long context, with flash
    attention on and off, and what a token of the draft model costs.

    Everything that drafts goes by these numbers. localspec also measures them by itself while it has nothing else to
    do; this takes more time and finds more. Ctrl+C keeps what was measured until then.
    """
    from localspec.chat.looks import drafts_with
    from localspec.cli import session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.output import print_json, print_table
    from localspec.cli.terminal import StatusLine, say

    choice = session.choose(values)
    status = StatusLine()
    client, info = session.start(choice, status)
    try:
        with Interrupts(client.cancel) as interrupts:
            report = client.calibrate(seconds, status.progress("measuring"))
    finally:
        status.clear()
        client.close()
    told = list(words.sentences(report))
    if as_json:
        facts = {
            "target": info.target,
            "draft": info.draft,
            "drafter": info.drafter,
            "threads": info.threads,
            "library": info.library,
        }
        print_json({**facts, **asdict(report), "meaning": told})
    else:
        beside = f" with {draft}" if (draft := drafts_with(info.drafter, info.draft)) else ""
        click.echo(f"{info.target}{beside}, {info.threads} threads, flash attention {report.flash}\n")
        headings = words.headings(report)
        print_table(headings, words.rows(report), right=[h for h in headings if h], whole=headings)
        click.echo(
            "\nrelative: to a plain pass, which yields one token; so many tokens a cycle must yield to break even. "
            "~: a guess from its neighbours.\n"
        )
        for sentence in told:
            click.echo(f"- {sentence}")
    if interrupts.hit:
        say("interrupted: what was measured until then is kept")
        return INTERRUPTED
    return 0
