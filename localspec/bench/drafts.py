"""Drafts for one target, ranked by the wall clock: a smaller draft that agrees less can be the faster one.

Every draft needs an engine of its own. As many as the memory holds are loaded together and answer in turn within a
round; those that must wait are measured after the others. Each engine decodes plainly too, and only ratios to its own
plain answers are compared, so that it makes no difference which engines stood side by side.

Leviathan et al. 2023 (arXiv 2211.17192, table 2) found it with T5: the 77M draft beats the 250M one for the 11B target,
though it is accepted less often.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Protocol

from localspec.bench import paired, process
from localspec.bench.paired import PLAIN, Answerer, Comparison, Measured, Mode, Plan, Prompting
from localspec.bench.stats import geometric_mean, interval
from localspec.bench.workloads import Task
from localspec.engine.errors import EngineError
from localspec.engine.events import MODEL_DRAFTERS
from localspec.engine.requests import KvType

MEMORY_SHARE = 0.8
"""Of the free memory, what engines loaded together may take: the rest is for whoever else works here."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to speculate: lookup (no `draft`), or a draft file, each with its modes. `needs` is memory in bytes."""

    name: str
    draft: Path | None
    modes: tuple[Mode, ...]
    needs: int = 0


def candidates(drafts: Sequence[Path], length: int) -> list[Candidate]:
    """Lookup, and every draft with lengths the engine chooses (it may stop drafting) and with a fixed one.

    Files of one name, from different folders, are told apart by their folder's.
    """
    names = [path.name for path in drafts]
    found = [Candidate("lookup", None, (Mode("lookup, automatic", "lookup"),))]
    for path in drafts:
        name = path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}"
        modes = (Mode(f"{name}, automatic", "draft"), Mode(f"{name}, {length}", "draft", length))
        found.append(Candidate(name, path, modes))
    return found


def memory_needed(files: Sequence[Path], context: int, kv_type: KvType) -> int:
    """Bytes an engine with these files takes at most. Raises `ModelError`."""
    size = sum(file.stat().st_size for file in files)
    return size + process.cache_bytes(files, context, kv_type) + process.SPARE_BYTES


def groups(found: Sequence[Candidate], free: int) -> list[list[Candidate]]:
    """Candidates to load together: as many as fit into `free` bytes, in their order; one that is too large alone is
    tried alone."""
    made: list[list[Candidate]] = []
    left = 0.0
    for one in found:
        if not made or one.needs > left:
            made.append([])
            left = free * MEMORY_SHARE
        made[-1].append(one)
        left -= one.needs
    return made


class Engine(Answerer, Protocol):
    """An engine that is loaded."""

    def close(self) -> None: ...


Start = Callable[[Candidate], tuple[Engine, Prompting]]
"""Loads a candidate's engine. Raises `EngineError`."""


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate in one mode. `draft_cost`: drafting one token, in plain passes of the target; None for lookup.

    `speedup`: geometric mean over the prompts of the medians over their rounds, with its 95 % bootstrap interval.
    """

    candidate: str
    mode: str
    draft_length: int | None
    speedup: float | None
    low: float | None
    high: float | None
    acceptance_rate: float | None
    tokens_per_cycle: float | None
    draft_cost: float | None


@dataclass(slots=True)
class Ranking:
    """What is measured so far, by candidate; `failed`: those that could not be loaded, and why."""

    measured: dict[str, Measured] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        """Every mode that was measured, the fastest first."""
        rows = []
        for name, measured in self.measured.items():
            compared = measured.comparisons(PLAIN)
            for mode in dict.fromkeys(one.mode.name for one in compared):
                rows += [_row(name, measured, [one for one in compared if one.mode.name == mode])]
        return sorted(rows, key=lambda row: -(row.speedup or 0.0))


def _row(name: str, measured: Measured, compared: Sequence[Comparison]) -> Row:
    mode = compared[0].mode
    stats = [one for each in compared for one in each.stats]
    judged, cycles = sum(one.judged for one in stats), sum(one.cycles for one in stats)
    prompts = [one.speedups for one in compared if one.speedups]
    low, high = interval([prompts]) or (None, None)
    return Row(
        name, mode.name, mode.draft_length,
        geometric_mean([median(rounds) for rounds in prompts]), low, high,
        sum(one.accepted for one in stats) / judged if judged else None,
        sum(max(0, one.tokens - 1) for one in stats) / cycles if cycles else None,
        _draft_cost(measured, mode),
    )  # fmt: skip


def _draft_cost(measured: Measured, mode: Mode) -> float | None:
    if mode.speculate not in MODEL_DRAFTERS:
        return None
    plain = {(run.task, run.round): [cycle.verify_ms for cycle in run.cycles]
             for run in measured.runs if run.mode == PLAIN}  # fmt: skip
    costs = [
        cycle.draft_ms / cycle.proposed / median(base)
        for run in measured.runs if run.mode == mode and (base := plain.get((run.task, run.round)))
        for cycle in run.cycles if cycle.proposed
    ]  # fmt: skip
    return median(costs) if costs else None


def smaller_wins(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    """The fastest draft at a fixed length, and one that is accepted more often and yet slower, if there is one."""
    fixed = [row for row in rows if row.draft_length is not None and row.speedup and row.acceptance_rate is not None]
    if not fixed:
        return None
    fastest = max(fixed, key=lambda row: row.speedup or 0.0)
    agreeing = max(fixed, key=lambda row: row.acceptance_rate or 0.0)
    return (fastest, agreeing) if (agreeing.acceptance_rate or 0) > (fastest.acceptance_rate or 0) else None


@dataclass(frozen=True, slots=True)
class Setting:
    """How it is measured. `stopped` is asked between answers; `progress` is told answers made, answers in all, what
    comes next."""

    start: Start
    tasks: Sequence[Task]
    rounds: int
    max_tokens: int
    stopped: Callable[[], bool] = lambda: False
    progress: Callable[[int, int, str], None] = lambda done, total, text: None


def measure(ranking: Ranking, together: Sequence[Sequence[Candidate]], setting: Setting) -> None:
    """Measure every group into `ranking`, which keeps what is there when it is stopped. Raises the engine's errors; a
    candidate that cannot be loaded is left out."""
    total = sum(1 + len(one.modes) for group in together for one in group) * len(setting.tasks) * setting.rounds
    done = 0
    for group in together:
        with ExitStack() as stack:
            engines: list[tuple[Candidate, Engine, Prompting]] = []
            for candidate in group:
                if setting.stopped():
                    return
                setting.progress(done, total, f"loading for {candidate.name}")
                try:
                    engine, prompting = setting.start(candidate)
                except EngineError as error:
                    if setting.stopped():
                        return
                    ranking.failed[candidate.name] = str(error)
                    total -= (1 + len(candidate.modes)) * len(setting.tasks) * setting.rounds
                    continue
                stack.callback(engine.close)
                engines.append((candidate, engine, prompting))
            for task in setting.tasks:
                for round_ in range(setting.rounds):
                    step = 1 if round_ % 2 == 0 else -1
                    for candidate, engine, prompting in engines[::step]:
                        setting.progress(done, total, f"{task.id}, {candidate.name}")
                        plan = Plan([task], [PLAIN, *candidate.modes][::step], 1, setting.max_tokens)
                        kept = ranking.measured.setdefault(candidate.name, Measured())
                        for answer in paired.run(engine, plan, prompting, setting.stopped):
                            kept.runs.append(replace(answer, round=round_))
                            done += 1
                            setting.progress(done, total, f"{task.id}, {candidate.name}")
                        if setting.stopped():
                            return
