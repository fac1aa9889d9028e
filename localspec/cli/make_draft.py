"""`localspec models make-draft`: a draft made of a model's own layers, measured, and an honest word on it."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from localspec import paths
from localspec.bench import selfdraft as trying
from localspec.bench import suite, where
from localspec.bench.workloads import Task
from localspec.chat.looks import share
from localspec.chat.pairing import Choice
from localspec.cli import bench_common as common
from localspec.cli import session, settings
from localspec.cli.errors import INTERRUPTED
from localspec.cli.interrupts import Interrupts
from localspec.cli.models_show import self_draft_data
from localspec.cli.output import print_json, progress_bars
from localspec.cli.terminal import StatusLine, aside, one_line, say
from localspec.engine import machine
from localspec.models import selfdraft, store
from localspec.models import settings as model_settings
from localspec.models.gguf import read_header
from localspec.models.layers import Shortening
from localspec.models.partial import human
from localspec.models.selfdraft import Findings, SelfDraft

CONTEXT = 2048
"""Tokens of context to measure with: the requests are short, and the model is loaded next to most of itself."""

CALIBRATE_S = 20.0
"""Seconds for what passes cost here; kept, as those of `localspec calibrate` are."""


def make_draft(name: str, keep: int | None, *, measure: bool, as_json: bool) -> int:
    """Make it, measure it, say what came out. Answers the exit code. Raises `ModelError` and `EngineError`."""
    target = store.resolve(name, settings=model_settings.load()).target
    ways = selfdraft.ways(target, keep)
    if measure and where.busy(where.load(), machine.usable_cores()):
        say("other programs keep the processor busy: what is said of costs is rough; run it again when it is quiet")
    cut, hit = _best(target, ways) if measure else (ways[0], False)
    made = _write(target, cut)
    if not as_json:
        for line in described(made):
            say(line)
    finding = None
    if measure and not hit:
        finding, hit = _measured(made)
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


def _best(target: Path, ways: Sequence[Shortening]) -> tuple[Shortening, bool]:
    """The way whose draft guesses most, by trying each, and whether that was interrupted: then the first one."""
    if len(ways) < 2:
        return ways[0], False
    found = []
    for number, cut in enumerate(ways, 1):
        made = _write(target, cut)
        # The engine's own copies of drafts (`engine/fast_draft.py`) are few: not one for what is thrown away at once.
        with _trying(made, f"set {number} of {len(ways)} of layers", copy=False) as trial:
            share_ = trying.guesses(trial.tasks, trial.setting)
        if trial.interrupts.hit:
            return ways[0], True
        aside(f"without {_numbers(cut.left_out)}: guesses {share(share_)}")
        found.append(share_ or 0.0)
    return ways[found.index(max(found))], False


def _write(target: Path, cut: Shortening) -> SelfDraft:
    with progress_bars() as bars:
        task = bars.add_task(one_line(f"writing the self-draft of {target.name}"), total=None)
        return selfdraft.make(
            target, cut=cut, progress=lambda done, total: bars.update(task, completed=done, total=total)
        )


def described(made: SelfDraft) -> Iterator[str]:
    """What was made, where it lies."""
    yield f"{made.kept} of {made.layers} layers, without {_numbers(made.left_out)} (counted from 0); {human(made.size)}"
    yield str(made.path)


def verdict(found: Findings, name: str) -> Iterator[str]:
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


def _measured(made: SelfDraft) -> tuple[Findings | None, bool]:
    """What the engine finds, and whether it was interrupted."""
    with _trying(made, "") as trial:
        report = trial.client.calibrate(CALIBRATE_S, trial.status.progress("measuring what passes cost"))
        trial.status.clear()
        found = None if trial.interrupts.hit else trying.measure(trial.tasks, trial.setting, report)
    return found, trial.interrupts.hit


@dataclass(frozen=True, slots=True)
class _Trial:
    """An engine with the self-draft loaded, and what it is tried on."""

    client: Any
    tasks: list[Task]
    setting: suite.Setting
    interrupts: Interrupts
    status: StatusLine


@contextmanager
def _trying(made: SelfDraft, what: str, *, copy: bool = True) -> Iterator[_Trial]:
    """`what` says before the progress which draft it is."""
    held = settings.in_force({"target": str(made.target)})
    known = read_header(made.target).context_length or CONTEXT
    config = held.engine_config(str(made.target), str(made.path), str(paths.cache_dir()))
    config = replace(config, drafter="self", context=min(known, CONTEXT), draft_copy=config.draft_copy and copy)
    status = StatusLine()
    client, info = session.start(Choice(config, "self", explicit=True), status)
    prompting = common.prompting_for(info)
    try:
        # A tiny context measures what it can.
        tasks = [
            task for task in trying.tasks(common.tasks_of(None))
            if client.count(prompting([task.prompt])) + trying.MAX_TOKENS <= info.context
        ]  # fmt: skip
        with Interrupts(client.cancel) as interrupts, common.Bar() as bar:

            def show(done: int, total: int, text: str) -> None:
                bar.show(done, total, f"{what}: {text}" if what else text)

            yield _Trial(
                client, tasks, suite.Setting(client, prompting, lambda: interrupts.hit, show), interrupts, status
            )
    finally:
        status.clear()
        client.close()


def _numbers(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers))
