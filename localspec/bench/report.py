"""Figures in words, each with its bar, and as JSON. A figure with nothing behind it is "–", or null."""

from dataclasses import dataclass
from statistics import median
from typing import Any

from localspec.bench.figures import EDIT_LENGTH, Figures
from localspec.bench.paired import GREEDY, Comparison
from localspec.bench.process import HEAVY

GREEDY_OVERHEAD = 0.02
SAMPLED_OVERHEAD = 0.05
"""Bars: time outside the models' passes over decode time."""

EDIT_SPEEDUP = 3.0
"""Bar for the median code edit, set for a build with AMX; what a wide pass costs here decides what can be had."""

HELP_S = 0.3

MISSING = "–"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `holds` None: nothing was measured, or there is no bar."""

    name: str
    value: str = MISSING
    bar: str = ""
    holds: bool | None = None


def rows(figures: Figures) -> list[Row]:
    """One row a figure."""
    return [*_overheads(figures), _edits(figures), _second_turn(figures), _memory(figures), *_start_up(figures)]


def _overheads(figures: Figures) -> list[Row]:
    found = []
    for mode in figures.modes():
        bar = GREEDY_OVERHEAD if mode.sampling == GREEDY else SAMPLED_OVERHEAD
        share = figures.overhead(mode)
        row = Row(f"overhead, {mode.name}", bar=f"at most {bar:.0%}")
        found.append(row if share is None else Row(row.name, f"{share:.2%}", row.bar, share <= bar))
    return found


def _edits(figures: Figures) -> Row:
    name, bar = f"code edits, lookup {EDIT_LENGTH}: median speed-up", f"at least {EDIT_SPEEDUP}x, built with AMX"
    speedup = figures.edit_speedup
    return Row(name, bar=bar) if speedup is None else Row(name, times(speedup), bar, speedup >= EDIT_SPEEDUP)


def _second_turn(figures: Figures) -> Row:
    name, turn = "second turn: prompt tokens reused", figures.second_turn
    if turn is None:
        return Row(name, bar="all but the new ones, and one")
    return Row(name, f"{turn.reused} of {turn.prompt}", f"at least {turn.same - 1}", turn.reused >= turn.same - 1)


def _memory(figures: Figures) -> Row:
    name, memory = "anonymous memory of the engine", figures.memory
    if memory is None:
        return Row(name, bar="at most files, KV caches and 0.40 GB")
    bar = f"at most {memory.bound / 1e9:.2f} GB"
    return Row(name, f"{memory.anonymous / 1e9:.2f} GB", bar, memory.anonymous <= memory.bound)


def _start_up(figures: Figures) -> list[Row]:
    best, middle, loads = "localspec --help, best", "localspec --help, median", "`import localspec` loads"
    bars, start = (f"under {HELP_S} s", "", f"not {' or '.join(HEAVY)}"), figures.start_up
    if start is None:
        return [Row(name, bar=bar) for name, bar in zip((best, middle, loads), bars, strict=True)]
    return [
        Row(best, f"{start.help_s[0]:.3f} s", bars[0], start.help_s[0] < HELP_S),
        Row(middle, f"{median(start.help_s):.3f} s"),
        Row(loads, ", ".join(start.loaded) or "neither", bars[2], not start.loaded),
    ]


def times(ratio: float | None) -> str:
    """A speed-up in words."""
    return MISSING if ratio is None else f"{ratio:.2f}x"


def as_json(figures: Figures) -> dict[str, Any]:
    """All figures as JSON values: seconds, bytes, shares, ratios."""
    info, memory, turn, start = figures.info, figures.memory, figures.second_turn, figures.start_up
    return {
        "target": info.target,
        "draft": info.draft,
        "threads": info.threads,
        "context": info.context,
        "flash_attn": info.flash_attn,
        "library": info.library,
        "overhead_share": {mode.name: figures.overhead(mode) for mode in figures.modes()},
        "edit_speedup": figures.edit_speedup,
        "edits": [_comparison(each) for each in figures.comparisons()],
        "second_turn": turn and {"prompt": turn.prompt, "same": turn.same, "reused": turn.reused},
        "memory": memory
        and {"anonymous": memory.anonymous, "files": memory.files, "caches": memory.caches, "bound": memory.bound},
        "start_up": start and {"help_s": start.help_s, "loaded": start.loaded},
    }


def _comparison(each: Comparison) -> dict[str, Any]:
    """`plain_cycles` had nothing drafted: no match, or due for the engine's own baseline."""
    return {
        "id": each.task.id,
        "category": each.task.category,
        "mode": each.mode.name,
        "speedup": each.speedup,
        "speedups": each.speedups,
        "acceptance_rate": each.acceptance_rate,
        "tokens_per_cycle": each.tokens_per_cycle,
        "cycles": sum(stats.cycles for stats in each.stats),
        "plain_cycles": sum(max(0, stats.plain - 1) for stats in each.stats),
        "tokens": [stats.tokens for stats in each.stats],
        "tokens_per_s": [stats.tokens_per_s for stats in each.stats],
        "draft_s": sum(stats.draft_s for stats in each.stats),
        "verify_s": sum(stats.verify_s for stats in each.stats),
        "overhead_s": sum(stats.overhead_s for stats in each.stats),
    }
