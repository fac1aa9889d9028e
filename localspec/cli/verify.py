"""`localspec verify`: proves on this machine, with this model, that drafting changes nothing of what it says."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import options
from localspec.cli.errors import FAILED, INTERRUPTED
from localspec.cli.json_command import JsonCommand
from localspec.cli.options import Number

if TYPE_CHECKING:
    from localspec.engine.proof.report import Proof
    from localspec.engine.requests import EngineInfo

SECONDS = 140.0

SIGNS = {"ok": "ok   ", "wrong": "WRONG", "note": "note "}


@click.command(cls=JsonCommand)
@options.model_options
@click.option(
    "--seconds", type=Number(float, 10, 3600), default=SECONDS, show_default=True, help="Time for it, at most about."
)
@click.option("--json", "as_json", is_flag=True, help="All verdicts as one JSON value.")
def verify(seconds: float, as_json: bool, **values: Any) -> int:
    """Prove that every drafter and every rule keeps what the target alone would say, on this machine.

    \b
    cuts           what is cut away from a cache after a rejection is gone
    law            what each rule lets through follows the target's law: reckoned, not sampled
    greedy, seed   answers of every drafter are the target's own, token by token
    draft in step  the draft model guesses after the target's text, and no other
    draws kept     no token that was drawn is taken back once its value is known
    penalties      count what was said, and nothing that was rejected
    chi-square     the whole engine's draws follow the target's law, and how small a bias would have shown

    More --seconds see smaller biases. Exit code 1 when something is wrong. Ctrl+C shows what was found until then.
    """
    from localspec.cli import session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.output import print_json
    from localspec.cli.terminal import StatusLine, complain, say
    from localspec.engine.proof.report import ProofJob

    if values["draft_length"] is not None:
        raise click.UsageError("verify drafts as much as its checks need: --draft-length does not belong here")
    choice = session.choose(values)
    status = StatusLine()
    client, info = session.start(choice, status)
    try:
        with Interrupts(client.cancel) as interrupts:
            proof = client.measure(ProofJob(seconds), status.progress("verifying"))
    finally:
        status.clear()
        client.close()
    if as_json:
        facts = {"type": "proof", "threads": info.threads, "library": info.library, "drafter": info.drafter}
        print_json({**facts, "verdict": _verdict(proof), "wrong": proof.wrong, **asdict(proof)})
    else:
        _print(proof, info)
    if interrupts.hit:
        say("interrupted: what was found until then is shown")
        return INTERRUPTED
    if proof.wrong:
        complain(f"{proof.wrong} of {len(proof.findings)} checks are wrong: please report them with the lines above")
        return FAILED
    return 0


def _verdict(proof: "Proof") -> str:
    return "wrong" if proof.wrong else "holds" if proof.complete else "incomplete"


def _print(proof: "Proof", info: "EngineInfo") -> None:
    """Two lines a verdict: the figure, and what it means."""
    from localspec.cli.terminal import visible

    beside = f" with {info.draft}" if info.draft else ""
    click.echo(visible(f"{info.target}{beside}, {info.threads} threads, flash attention {info.flash_attn}\n"))
    check = max((len(each.check) for each in proof.findings), default=0)
    subject = max((len(each.subject) for each in proof.findings), default=0)
    for each in proof.findings:
        head = f"{SIGNS[each.state]}  {each.check.ljust(check)}  {each.subject.ljust(subject)}  "
        click.echo(visible(f"{head}{each.figure}"))
        click.echo(visible(f"{' ' * len(head)}{each.meaning}"))
    holding = sum(each.state == "ok" for each in proof.findings)
    notes = sum(each.state == "note" for each in proof.findings)
    told = f"{holding} checks hold, {proof.wrong} are wrong, {notes} could say nothing; {proof.seconds:.0f} s."
    if proof.complete and not proof.wrong:
        told += " What localspec says here is what the target alone would say."
    click.echo(f"\n{told}")
