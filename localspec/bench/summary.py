"""From answers to a report's rows: by category and by prompt, on both clocks, with the lengths that were drafted."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from localspec.bench import stats, virtual
from localspec.bench.curves import Pricing
from localspec.bench.paired import Comparison, Measured, Mode, Run, is_baseline
from localspec.bench.results import ModeReport, Row
from localspec.bench.stats import Estimate
from localspec.engine.events import Cycle

LONG = 64
"""Tokens an answer needs for a row of its own: of a shorter one the wall clock resolves no few per cent."""

MEAN = "geometric mean"

Bound = Callable[[Run], float | None]
"""The best speed-up in virtual time that perfect draft lengths reach on the text of an answer; None: not known."""


def mode_reports(
    measured: Measured, max_tokens: int, pricing: Pricing | None = None, bound: Bound = lambda run: None
) -> tuple[ModeReport, ...]:
    """Every mode but the baselines, in the order they were first run. Without `pricing` there is no virtual time."""
    modes = {run.mode.name: run.mode for run in measured.runs if run.mode.speculate != "off"}
    compared = measured.comparisons()
    found = []
    for mode in modes.values():
        mine = [each for each in compared if each.mode == mode]
        found.append(_Summary(measured, mode, mine, min(LONG, max_tokens), pricing, bound).report())
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Summary:
    """One mode's share of the answers. `long`: tokens an answer needs for a row of its own."""

    measured: Measured
    mode: Mode
    compared: Sequence[Comparison]
    long: int
    pricing: Pricing | None
    bound: Bound

    def report(self) -> ModeReport:
        names = dict.fromkeys(each.task.category for each in self.compared)
        groups = [[each for each in self.compared if each.task.category == name] for name in names]
        rows = tuple(self._row(name, group) for name, group in zip(names, groups, strict=True))
        runs = [run for run in self.measured.runs if run.mode == self.mode]
        return ModeReport(
            name=self.mode.name,
            speculate=self.mode.speculate,
            draft_length=self.mode.draft_length,
            temperature=self.mode.sampling.temperature,
            mean=self._mean(rows, groups),
            categories=rows,
            prompts=tuple(row for name, group in zip(names, groups, strict=True) for row in self._prompts(name, group)),
            run_lengths=_lengths(runs, lambda cycle: cycle.accepted),
            draft_lengths=_lengths(runs, lambda cycle: cycle.proposed),
        )

    def _row(self, category: str, group: Sequence[Comparison], identity: str = "") -> Row:
        """Several prompts of one category."""
        runs = [run for each in group for run in self.measured.of(each.task, self.mode)]
        drafters = Counter(cycle.drafter if cycle.proposed else "none" for run in runs for cycle in run.cycles)
        return Row(
            category=category,
            id=identity,
            prompts=len(group),
            answers=len(runs),
            tokens=sum(max(0, run.stats.tokens - 1) for run in runs),
            wall=_estimate([[each.speedups for each in group]]),
            virtual=self._virtual(runs),
            bound=self._bound(runs),
            judged=sum(run.stats.judged for run in runs),
            accepted=sum(run.stats.accepted for run in runs),
            cycles=sum(run.stats.cycles for run in runs),
            drafters=dict(sorted(drafters.items(), key=lambda item: (item[0] == "none", -item[1]))),
        )

    def _prompts(self, category: str, group: Sequence[Comparison]) -> list[Row]:
        """A row a prompt, those with short answers pooled into one."""
        rows, short = [], []
        for each in group:
            if median(one.tokens for one in each.stats) >= self.long:
                rows.append(_with_rounds(self._row(category, [each], each.task.id), each.speedups))
            else:
                short.append(each)
        if len(short) == 1:
            rows.append(_with_rounds(self._row(category, short, short[0].task.id), short[0].speedups))
        elif short:
            names = ", ".join(each.task.id for each in short)
            rows.append(_with_rounds(self._row(category, short, f"short answers: {names}"), self._pooled(short)))
        return rows

    def _pooled(self, group: Sequence[Comparison]) -> list[float]:
        """Ratios by round of all the prompts' tokens over all their seconds."""
        fast: dict[int, list[Run]] = {}
        plain: dict[int, list[Run]] = {}
        tasks = [each.task for each in group]
        for run in self.measured.runs:
            if run.task in tasks:
                if run.mode == self.mode:
                    fast.setdefault(run.round, []).append(run)
                elif is_baseline(run.mode, self.mode):
                    plain.setdefault(run.round, []).append(run)
        ratios = []
        for number, runs in sorted(fast.items()):
            base = plain.get(number, [])
            if len(runs) == len(base) == len(tasks) and (one := _speed(runs)) and (other := _speed(base)):
                ratios.append(one / other)
        return ratios

    def _virtual(self, runs: Sequence[Run]) -> float | None:
        return virtual.pooled(runs, self.pricing).speedup if self.pricing else None

    def _bound(self, runs: Sequence[Run]) -> float | None:
        """All tokens over the least cost of all; None when the bound of one answer is not known."""
        tokens, cost = 0, 0.0
        for run in runs:
            bound = self.bound(run)
            if bound is None:
                return None
            tokens += max(0, run.stats.tokens - 1)
            cost += max(0, run.stats.tokens - 1) / bound
        return tokens / cost if cost else None

    def _mean(self, rows: Sequence[Row], groups: Sequence[Sequence[Comparison]]) -> Row:
        drafters: Counter[str] = Counter()
        for row in rows:
            drafters.update(row.drafters)
        return Row(
            category=MEAN,
            prompts=sum(row.prompts for row in rows),
            answers=sum(row.answers for row in rows),
            tokens=sum(row.tokens for row in rows),
            wall=_estimate([[each.speedups for each in group] for group in groups]),
            virtual=_mean_of(row.virtual for row in rows),
            bound=_mean_of(row.bound for row in rows),
            judged=sum(row.judged for row in rows),
            accepted=sum(row.accepted for row in rows),
            cycles=sum(row.cycles for row in rows),
            drafters=dict(drafters),
        )


def _estimate(categories: Sequence[stats.Prompts]) -> Estimate:
    ends = stats.interval(categories) or (None, None)
    return Estimate(stats.speedup(categories), *ends)


def _with_rounds(row: Row, speedups: Sequence[float]) -> Row:
    return replace(row, wall=_estimate([[speedups]]), speedups=tuple(speedups))


def _mean_of(values: Iterable[float | None]) -> float | None:
    """The geometric mean; None when one is missing, for it would be that of other categories."""
    values = list(values)
    known = [value for value in values if value is not None]
    return stats.geometric_mean(known) if len(known) == len(values) else None


def _speed(runs: Sequence[Run]) -> float | None:
    seconds = sum(run.stats.decode_s for run in runs)
    return sum(max(0, run.stats.tokens - 1) for run in runs) / seconds if seconds else None


def _lengths(runs: Iterable[Run], length: Callable[[Cycle], int]) -> dict[str, dict[str, int]]:
    """Drafted cycles by drafter and a length of theirs."""
    found: dict[str, Counter[int]] = {}
    for run in runs:
        for cycle in run.cycles:
            if cycle.proposed:
                found.setdefault(cycle.drafter, Counter())[length(cycle)] += 1
    return {name: {str(key): counts[key] for key in sorted(counts)} for name, counts in found.items()}
