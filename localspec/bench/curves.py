"""What a target pass of n tokens costs relative to a plain one, as data: of this machine, or of another one.

A curve as JSON: `{"name": text, "widths": [1, 2, ...], "contexts": [tokens, ...], "costs": [[cost, ...], ...],
"draft_token": cost or null}`, one row of costs a context. A report that `bench` saved holds one under `curve`, so any
report prices the answers of another machine. Costs count in plain passes at the same context length.
"""

import itertools
import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from localspec.bench.paired import Run
from localspec.engine.cost_report import CostReport
from localspec.engine.events import MODEL_DRAFTERS

ENOUGH = 3
"""Passes of a width before their median stands for it: one may have stalled."""


class CurveError(Exception):
    """A cost curve that cannot be read; `str(error)` is one line."""


class Pricing(Protocol):
    """What passes cost, in plain passes at the same context length (tokens)."""

    @property
    def name(self) -> str: ...
    def relative(self, width: int, context: int) -> float: ...
    def draft_token(self, context: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Curve:
    """`costs[i][j]` is a pass of `widths[j]` tokens at `contexts[i]`; both ascend. `draft` is a drawn draft token.

    Between its points it is linear; a pass wider than the last point costs in proportion.
    """

    name: str
    widths: tuple[int, ...]
    contexts: tuple[int, ...]
    costs: tuple[tuple[float, ...], ...]
    draft: float | None = None

    def relative(self, width: int, context: int) -> float:
        if width > self.widths[-1]:
            return self.relative(self.widths[-1], context) * width / self.widths[-1]
        return _between(self.contexts, [_between(self.widths, row, width) for row in self.costs], context)

    def draft_token(self, context: int) -> float:
        """A draft token that nothing is known of costs as much as a plain pass: no draft model can look good by it."""
        return 1.0 if self.draft is None else self.draft

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "widths": list(self.widths),
            "contexts": list(self.contexts),
            "costs": [[round(cost, 4) for cost in row] for row in self.costs],
            "draft_token": self.draft,
        }


REFERENCE = {
    "amx": Curve(
        "reference: native build with AMX", (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32), (0,),
        ((1, 1.6, 1.7, 1.8, 1.85, 1.9, 2.1, 2.35, 2.7, 3.7, 4.6),), 0.44,
    ),
    "avx512": Curve(
        "reference: native build with AVX-512", (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32), (0,),
        ((1, 1.5, 1.9, 1.7, 2.2, 2.5, 3.5, 3.8, 4.0, 5.7, 6.3),), 0.44,
    ),
    "avx2": Curve(
        "reference: portable build, AVX2", (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32), (0,),
        ((1, 1.5, 2.4, 2.0, 2.4, 3.0, 4.1, 5.2, 5.3, 8.3, 9.0),), 0.44,
    ),
}  # fmt: skip
"""Measured with Qwen2.5-Coder-1.5B and 0.5B, Q4_K_M, two cores of one server processor, short context."""


def read(spec: str) -> Curve:
    """A reference curve by its name, or a curve or saved report in a JSON file. Raises `CurveError`."""
    if spec in REFERENCE:
        return REFERENCE[spec]
    try:
        found = json.loads(Path(spec).read_text(encoding="utf-8"))
    except OSError as error:
        names = ", ".join(REFERENCE)
        raise CurveError(f"{spec}: {error.strerror or error} (a cost curve is a JSON file, or {names})") from None
    except (ValueError, RecursionError):
        raise CurveError(f"{spec}: not JSON") from None
    if isinstance(found, dict) and isinstance(found.get("curve"), dict):
        found = found["curve"]
    try:
        return from_json(found)
    except ValueError as error:
        raise CurveError(f"{spec}: {error}") from None


def from_json(found: Any) -> Curve:
    """Raises ValueError with what is wrong."""
    if not isinstance(found, dict):
        raise ValueError("a cost curve is a JSON object")
    widths = _ascending(found.get("widths"), "widths")
    if widths[0] != 1:
        raise ValueError("widths must begin with 1, the plain pass")
    contexts = _ascending(found.get("contexts", [0]), "contexts", least=0)
    rows = found.get("costs")
    if not isinstance(rows, list) or len(rows) != len(contexts):
        raise ValueError("costs must have one list for each context")
    costs = []
    for row in rows:
        if not isinstance(row, list) or len(row) != len(widths) or not all(_is_cost(cost) for cost in row):
            raise ValueError("costs must have one positive number for each width")
        costs.append(tuple(float(cost) for cost in row))
    draft = found.get("draft_token")
    if draft is not None and not _is_cost(draft):
        raise ValueError("draft_token must be a positive number")
    return Curve(str(found.get("name", "a curve")), widths, contexts, tuple(costs), draft and float(draft))


def of_costs(report: CostReport, runs: Iterable[Run], name: str = "measured here") -> Curve:
    """The engine's measured costs."""
    draft = report.draft_token
    return Curve(name, report.widths, report.contexts, report.table, draft_seen(list(runs)) if draft is None else draft)


def of_runs(runs: Iterable[Run]) -> Curve | None:
    """The curve that the answers' own passes show, when nothing better is known; None before there are enough."""
    runs = list(runs)
    seen: dict[int, list[float]] = {}
    for run in runs:
        for cycle in run.cycles:
            seen.setdefault(1 + cycle.proposed, []).append(cycle.verify_ms)
    medians = {width: median(times) for width, times in sorted(seen.items()) if len(times) >= ENOUGH}
    plain = medians.get(1)
    if not plain:
        return None
    widths = tuple(medians)
    costs = tuple(1.0 if width == 1 else max(1.0, medians[width] / plain) for width in widths)
    return Curve("the passes of these answers", widths, (0,), (costs,), draft_seen(runs))


def draft_seen(runs: list[Run]) -> float | None:
    """A draft token relative to a plain pass, in these answers."""
    plain = [cycle.verify_ms for run in runs for cycle in run.cycles if not cycle.proposed]
    drawn = [
        cycle.draft_ms / cycle.proposed
        for run in runs
        for cycle in run.cycles
        if cycle.drafter in MODEL_DRAFTERS and cycle.proposed
    ]
    return median(drawn) / median(plain) if drawn and plain and median(plain) > 0 else None


def _between(places: Sequence[int], values: Sequence[float], at: int) -> float:
    """Linear between the places, constant outside."""
    index = bisect_left(places, at)
    if index == len(places):
        return values[-1]
    if places[index] == at or index == 0:
        return values[index]
    low, high = places[index - 1], places[index]
    return values[index - 1] + (values[index] - values[index - 1]) * (at - low) / (high - low)


def _ascending(found: Any, name: str, least: int = 1) -> tuple[int, ...]:
    if not isinstance(found, list) or not found or not all(type(one) is int and one >= least for one in found):
        raise ValueError(f"{name} must be a list of whole numbers")
    if any(a >= b for a, b in itertools.pairwise(found)):
        raise ValueError(f"{name} must ascend")
    return tuple(found)


def _is_cost(found: Any) -> bool:
    return type(found) in (int, float) and 0 < found < 1e6
