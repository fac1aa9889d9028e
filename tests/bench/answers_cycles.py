"""Runs with cycles that are written down, for what is reckoned from them."""

from collections.abc import Sequence
from typing import Any

from localspec.bench.paired import PLAIN, Mode, Run
from localspec.bench.workloads import Task
from localspec.engine.events import Cycle, DrafterName
from tests.bench.answers import stats

AUTO = Mode("auto", "auto")


def cycle(proposed: int = 0, accepted: int = 0, drafter: DrafterName = "lookup", **fields: Any) -> Cycle:
    """A draft of `proposed` tokens of which `accepted` stand, and the token after them."""
    values: dict[str, Any] = {
        "cycle": 1, "drafter": drafter if proposed else "none", "proposed": proposed, "proposed_text": "",
        "judged": min(proposed, accepted + 1), "accepted": accepted, "emitted": accepted + 1,
        "draft_ms": 0.0, "verify_ms": 10.0,
    }  # fmt: skip
    return Cycle(**values | fields)


def run(
    task: Task, mode: Mode, round_: int, speed: float | None, cycles: Sequence[Cycle] = (), ids: Sequence[int] = ()
) -> Run:
    """An answer at `speed` tokens/s, its counts those of the cycles (11 tokens without any)."""
    tokens = 1 + sum(one.emitted for one in cycles) if cycles else 11
    counts = {
        "cycles": len(cycles) or tokens - 1,
        "judged": sum(one.judged for one in cycles),
        "accepted": sum(one.accepted for one in cycles),
    }
    return Run(task, mode, round_, stats(speed, tokens=tokens, **counts), tuple(cycles), tuple(ids))


def pairs(task: Task, ratios: Sequence[float], cycles: Sequence[Cycle], mode: Mode = AUTO) -> list[Run]:
    """A plain answer and one of `mode` a round, so that the ratios come out."""
    plain = [cycle() for _ in range(sum(one.emitted for one in cycles))]
    found = []
    for number, ratio in enumerate(ratios):
        found += [run(task, PLAIN, number, 10.0, plain), run(task, mode, number, 10.0 * ratio, cycles)]
    return found
