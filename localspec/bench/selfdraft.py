"""Is a draft made of a model's own layers worth using here? Agreement, cost, and what follows from both.

Agreement is the share of the model's own greedy tokens that the draft guesses, taken while it drafts: every judged
token stands behind the model's own text. With that, what a token of the draft costs and what passes cost here, each
draft length has an expected speed (`theory.py`); only where the best one promises something is it also run against
the clock.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol

from localspec.bench import suite, theory
from localspec.bench.curves import draft_seen
from localspec.bench.paired import PLAIN, Answerer, Measured, Mode, Plan, Run
from localspec.bench.stats import geometric_mean
from localspec.bench.workloads import Task
from localspec.engine.controller import DRAWN_PAYS
from localspec.engine.cost_report import CostReport
from localspec.models.selfdraft import Findings

CATEGORIES = ("code-generation", "chat", "code-edit")
"""What it is tried on, the first request of each: text that is easy to guess, hard to guess, and mostly copied."""

LENGTH = 2
"""Draft length while agreement is taken."""

MAX_TOKENS = 48
CONTEXT = 256
"""Tokens of context that costs are taken at: about what these answers have."""

ROUNDS = 2
"""Of the run against the clock."""


class Priced(Answerer, Protocol):
    """An engine that also measures what passes cost."""

    def calibrate(self, seconds: float, on_progress: Callable[[float], None] | None = None) -> CostReport: ...


def tasks(known: Sequence[Task]) -> list[Task]:
    """The requests it is tried on."""
    return [task for task in suite.first_of_each(known, 1) if task.category in CATEGORIES]


def measure(known: Sequence[Task], setting: suite.Setting, report: CostReport) -> Findings | None:
    """Run the engine, which has the self-draft loaded; None when it was stopped, or nothing was judged.

    Raises the engine's errors.
    """
    measured = Measured()
    suite.measure(measured, Plan(known, (PLAIN, _mode(LENGTH)), 1, MAX_TOKENS), setting)
    agreement, by_category, token = agreement_of(measured.runs, LENGTH), _by_category(measured.runs), _cost(measured)
    if setting.stopped() or agreement is None or token is None:
        return None
    length, expected = theory.best_length(agreement, token, lambda width: report.relative(width, CONTEXT))
    timed = LENGTH
    if expected >= DRAWN_PAYS and length != LENGTH:
        timed = length
        suite.measure(measured, Plan(known, (PLAIN, _mode(length)), ROUNDS, MAX_TOKENS), setting)
    ratios = [
        one.speedup for one in measured.comparisons(PLAIN) if one.mode == _mode(timed) and one.speedup is not None
    ]
    speedup = geometric_mean(ratios) if ratios else None
    worth = expected >= DRAWN_PAYS and speedup is not None and speedup >= DRAWN_PAYS
    return Findings(agreement, by_category, token, length, expected, timed, speedup, worth)


def guesses(known: Sequence[Task], setting: suite.Setting) -> float | None:
    """Agreement alone, by half as long answers: to choose among drafts. None when it was stopped, or nothing was
    judged."""
    measured = Measured()
    suite.measure(measured, Plan(known, (_mode(LENGTH),), 1, MAX_TOKENS // 2), setting)
    return None if setting.stopped() else agreement_of(measured.runs, LENGTH)


def agreement_of(runs: Sequence[Run], length: int) -> float | None:
    """Accepted over judged of the answers with drafts of `length`; None when nothing was judged."""
    mine = [run.stats for run in runs if run.mode == _mode(length)]
    judged = sum(stats.judged for stats in mine)
    return sum(stats.accepted for stats in mine) / judged if judged else None


def _by_category(runs: Sequence[Run]) -> dict[str, float]:
    found = {}
    for category in dict.fromkeys(run.task.category for run in runs):
        share = agreement_of([run for run in runs if run.task.category == category], LENGTH)
        if share is not None:
            found[category] = share
    return found


def _cost(measured: Measured) -> float | None:
    """A token of the draft in plain passes: the median over the requests, within which the machine is one machine."""
    costs = [
        cost for task in dict.fromkeys(run.task for run in measured.runs)
        if (cost := draft_seen([run for run in measured.runs if run.task == task])) is not None
    ]  # fmt: skip
    return median(costs) if costs else None


def _mode(length: int) -> Mode:
    return Mode(f"self {length}", "self", length)
