"""Speed-up against draft length, measured, and what the independence model says of it.

The theory gets its two inputs from the same answers that are measured: the acceptance rate, and what a cycle with a
full draft cost in plain passes. Where the curves part, its assumptions do not hold: that every drafted token stands or
falls by itself, with one probability, and that every draft is as long as it may be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from localspec.bench import theory
from localspec.bench.paired import PLAIN, Measured, Mode, Run
from localspec.bench.stats import geometric_mean
from localspec.bench.workloads import Task
from localspec.engine.requests import Speculate

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 15)


def modes(drafters: Sequence[Speculate], lengths: Sequence[int]) -> list[Mode]:
    """Plain decoding, then every drafter with every length."""
    return [PLAIN, *(mode(drafter, length) for drafter in drafters for length in lengths)]


def mode(drafter: Speculate, length: int) -> Mode:
    return Mode(f"{drafter} {length}", drafter, length)


def few(tasks: Sequence[Task], count: int) -> list[Task]:
    """The first request of each of the first `count` categories."""
    first: dict[str, Task] = {}
    for task in tasks:
        first.setdefault(task.category, task)
    return list(first.values())[:count]


@dataclass(frozen=True, slots=True)
class Point:
    """One drafter with one length, all prompts and rounds together. None: nothing stands behind it.

    `speedup`: geometric mean over the prompts of the medians over their rounds. `drafted`: share of the cycles that had
    a draft. `verify_cost` and `draft_cost`: the pass over 1 + `length` tokens, and drafting them, in plain passes.
    `theory`: the speed-up the model expects of this acceptance, share and cost.
    """

    drafter: Speculate
    length: int
    speedup: float | None = None
    acceptance_rate: float | None = None
    tokens_per_cycle: float | None = None
    drafted: float | None = None
    verify_cost: float | None = None
    draft_cost: float | None = None
    theory: float | None = None


def points(measured: Measured, drafters: Sequence[Speculate], lengths: Sequence[int]) -> list[Point]:
    """A point for every drafter and length, in that order."""
    return [_point(measured, drafter, length) for drafter in drafters for length in lengths]


def best(curve: Sequence[Point], *, by_theory: bool = False) -> Point | None:
    """The fastest point that is known."""
    known = [(value, point) for point in curve if (value := point.theory if by_theory else point.speedup) is not None]
    return max(known, key=lambda one: one[0])[1] if known else None


def _point(measured: Measured, drafter: Speculate, length: int) -> Point:
    wanted = mode(drafter, length)
    compared = [one for one in measured.comparisons(PLAIN) if one.mode == wanted]
    runs = [run for run in measured.runs if run.mode == wanted]
    cycles = sum(run.stats.cycles for run in runs)
    if not cycles:
        return Point(drafter, length)
    judged = sum(run.stats.judged for run in runs)
    rate = sum(run.stats.accepted for run in runs) / judged if judged else None
    drafted = sum(cycle.proposed > 0 for run in runs for cycle in run.cycles) / cycles
    costs = list(_costs(measured, runs, length))
    verify = median(cost for cost, _ in costs) if costs else None
    draft = median(cost for _, cost in costs) if costs else None
    expected = None
    if rate is not None and verify is not None and draft is not None:
        expected = theory.speedup(theory.expected_tokens(rate, length), verify + draft, drafted)
    return Point(
        drafter, length,
        speedup=geometric_mean([one.speedup for one in compared if one.speedup is not None]),
        acceptance_rate=rate,
        tokens_per_cycle=sum(max(0, run.stats.tokens - 1) for run in runs) / cycles,
        drafted=drafted, verify_cost=verify, draft_cost=draft, theory=expected,
    )  # fmt: skip


def _costs(measured: Measured, runs: Sequence[Run], length: int) -> Iterator[tuple[float, float]]:
    """Verifying and drafting of every cycle with a full draft, in plain passes of the same prompt and round."""
    plain = {(run.task, run.round): run for run in measured.runs if run.mode == PLAIN}
    for run in runs:
        base = plain.get((run.task, run.round))
        passes = [cycle.verify_ms for cycle in base.cycles] if base else []
        if not passes or not (plain_ms := median(passes)):
            continue
        for cycle in run.cycles:
            if cycle.proposed == length:
                yield cycle.verify_ms / plain_ms, cycle.draft_ms / plain_ms
