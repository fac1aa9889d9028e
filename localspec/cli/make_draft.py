"""`localspec models make-draft`: a draft made of a model's own layers, measured, and an honest word on it."""

import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import click

from localspec import paths
from localspec.bench import selfdraft as trying
from localspec.bench import suite
from localspec.chat.looks import share
from localspec.chat.pairing import Choice
from localspec.cli import bench_common as common
from localspec.cli import session, settings
from localspec.cli.errors import INTERRUPTED
from localspec.cli.interrupts import Interrupts
from localspec.cli.models_show import self_draft_data
from localspec.cli.output import print_json, progress_bars
from localspec.cli.terminal import StatusLine, one_line, say
from localspec.models import selfdraft, store
from localspec.models import settings as model_settings
from localspec.models.gguf import read_header
from localspec.models.partial import human
from localspec.models.selfdraft import Measured, SelfDraft

CONTEXT = 2048
"""Tokens of context to measure with: the requests are short, and the model is loaded next to most of itself."""

CALIBRATE_S = 20.0
"""Seconds for what passes cost here; kept, as those of `localspec calibrate` are."""


def make_draft(name: str, keep: int | None, *, measure: bool, as_json: bool) -> int:
    """Make it, measure it, say what came out. Answers the exit code. Raises `ModelError` and `EngineError`."""
    found = store.resolve(name, settings=model_settings.load())
    target = found.target
    with progress_bars() as bars:
        task = bars.add_task(one_line(f"writing the self-draft of {target.name}"), total=None)
        made = selfdraft.make(target, keep, lambda done, total: bars.update(task, completed=done, total=total))
    if not as_json:
        for line in described(made):
            say(line)
    finding, hit = _measured(made) if measure else (None, False)
    if finding is not None:
        made = replace(made, measured=finding)
        selfdraft.remember(made, finding)
    if as_json:
        print_json(self_draft_data(made))
    elif finding is not None:
        for line in verdict(finding, name):
            click.echo(line)
    if hit:
        say("interrupted: the draft is there; what was not measured is not used by auto")
        return INTERRUPTED
    if finding is None and not as_json:
        say("not measured, so auto leaves it alone; --speculate self uses it")
    return 0


def described(made: SelfDraft) -> Iterator[str]:
    """What was made, where it lies."""
    left_out = ", ".join(map(str, made.left_out))
    yield f"{made.kept} of {made.layers} layers, without {left_out} (counted from 0); {human(made.size)}"
    yield str(made.path)


def verdict(found: Measured, name: str) -> Iterator[str]:
    """What was measured of the draft of `name`, and whether it is worth using here."""
    kinds = ", ".join(f"{category} {share(value)}" for category, value in found.by_category.items())
    yield (
        f"It guesses {share(found.agreement)} of the model's own tokens ({kinds}); one of its tokens costs "
        f"{found.token_cost:.2f} of a plain pass."
    )
    tokens = "1 token" if found.length == 1 else f"{found.length} tokens"
    timed = f"{found.speedup:.2f}x by the clock" if found.speedup is not None else "not timed"
    at = "" if found.measured_length == found.length else f" with drafts of {found.measured_length}"
    yield (f"The best draft length is {tokens}: {found.expected:.2f}x plain decoding by these figures; {timed}{at}.")
    if found.worth:
        yield "Worth using here: auto drafts with it where the model has no draft of its own."
    else:
        yield (
            "Not worth using here: auto leaves it alone, and only --speculate self uses it. "
            f"`localspec models remove {shlex.quote(name)} --self-draft` deletes it."
        )


def _measured(made: SelfDraft) -> tuple[Measured | None, bool]:
    """What the engine finds, and whether it was interrupted."""
    held = settings.in_force({"target": str(made.target)})
    known = read_header(made.target).context_length or CONTEXT
    config = held.engine_config(str(made.target), str(made.path), str(paths.cache_dir()))
    config = replace(config, drafter="self", context=min(known, CONTEXT))
    status = StatusLine()
    client, info = session.start(Choice(config, "self", explicit=True), status)
    try:
        tasks = [task for task in trying.tasks(common.tasks_of(None)) if _fits(task.prompt, client, info)]
        with Interrupts(client.cancel) as interrupts:
            report = client.calibrate(CALIBRATE_S, status.progress("measuring what passes cost"))
            status.clear()
            with common.Bar() as bar:
                setting = suite.Setting(client, common.prompting_for(info), lambda: interrupts.hit, bar.show)
                found = None if interrupts.hit else trying.measure(tasks, setting, report)
    finally:
        status.clear()
        client.close()
    return (Measured(**asdict(found)) if found else None), interrupts.hit


def _fits(prompt: str, client: Any, info: Any) -> bool:
    """The request leaves room for its answer: a tiny context measures what it can."""
    return bool(client.count(common.prompting_for(info)([prompt])) + trying.MAX_TOKENS <= info.context)
