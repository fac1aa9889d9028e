"""What a measurement found, as values that go to the table, to JSON and to a page, and come back from JSON.

The JSON form has the names of the fields below, nested as they are; `as_json` of a `Report` is what `localspec bench
--json` prints and `--save` writes. Speed-ups are ratios to plain decoding of the same target; null: nothing was
measured that could stand there.
"""

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from localspec.bench import curves
from localspec.bench.curves import Curve
from localspec.bench.rule_results import Rules
from localspec.bench.stats import Estimate

FORMAT = "localspec bench 1"


class ReportError(Exception):
    """A saved report that cannot be read; `str(error)` is one line."""


@dataclass(frozen=True, slots=True)
class Row:
    """A category under one mode, or a prompt of it (`id`), or several short ones pooled (`prompts` > 1 and an `id`).

    `answers` of the mode with `tokens` decoded in all (the first token of an answer comes from the prompt and is not
    counted), in `cycles`. `speedups`: by round, for one prompt. `virtual` is in virtual time, `bound` what lookup with
    perfect draft lengths would reach there on the same text by its tokens alone (`bounds.py`). `drafters`: cycles by
    who drafted, `none` for plain ones.
    """

    category: str
    id: str = ""
    prompts: int = 1
    answers: int = 0
    tokens: int = 0
    wall: Estimate = field(default_factory=Estimate)
    speedups: tuple[float, ...] = ()
    virtual: float | None = None
    bound: float | None = None
    judged: int = 0
    accepted: int = 0
    cycles: int = 0
    drafters: dict[str, int] = field(default_factory=dict)

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.judged if self.judged else None

    @property
    def tokens_per_cycle(self) -> float | None:
        return self.tokens / self.cycles if self.cycles else None

    @property
    def of_bound(self) -> float | None:
        """How much of the bound is reached."""
        return self.virtual / self.bound if self.virtual is not None and self.bound else None


@dataclass(frozen=True, slots=True)
class ModeReport:
    """One way to decode, against plain decoding with the same sampling.

    `mean` is the geometric mean over the categories. `run_lengths`: cycles by drafter and accepted tokens;
    `draft_lengths`: cycles by drafter and proposed tokens. The lengths are texts, as JSON has it.
    """

    name: str
    speculate: str
    draft_length: int | None
    temperature: float
    mean: Row
    categories: tuple[Row, ...]
    prompts: tuple[Row, ...]
    run_lengths: dict[str, dict[str, int]] = field(default_factory=dict)
    draft_lengths: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file: its name and size in bytes."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and with what it was measured. `library` is what llama.cpp says of its build."""

    processor: str
    cores: int
    system: str
    python: str
    localspec: str
    target: ModelFile
    draft: ModelFile | None
    threads: int
    context: int
    gpu_layers: int
    kv_type: str
    flash_attn: str
    library: str


@dataclass(frozen=True, slots=True)
class Report:
    """A whole measurement; not `complete`: it was stopped, and this is what it had. `curve` priced the virtual time.

    `load`: how many programs wanted a core in the minute before it began (null where the system does not tell).
    `rules`: the verification rules beside each other, where they were compared.
    """

    date: str
    command: str
    complete: bool
    machine: Machine
    workload: str
    rounds: int
    max_tokens: int
    pair: str
    modes: tuple[ModeReport, ...]
    curve: Curve | None = None
    load: float | None = None
    rules: Rules | None = None
    format: str = FORMAT


def as_json(report: Report) -> dict[str, Any]:
    """JSON values; the rates that follow from the counts are there too, for whoever reads it without this program."""
    found = asdict(report)
    found["curve"] = report.curve.as_json() if report.curve else None
    for mode, told in zip(report.modes, found["modes"], strict=True):
        _add_rates(mode.mean, told["mean"])
        for rows, texts in ((mode.categories, told["categories"]), (mode.prompts, told["prompts"])):
            for row, text in zip(rows, texts, strict=True):
                _add_rates(row, text)
    return found


def _add_rates(row: Row, told: dict[str, Any]) -> None:
    told |= {name: getattr(row, name) for name in ("acceptance_rate", "tokens_per_cycle", "of_bound")}


def from_json(found: Any) -> Report:
    """A report out of JSON values; keys it does not know are ignored. Raises `ReportError`."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ReportError(f"this is no saved report of localspec bench (format {FORMAT!r})")
    try:
        curve = found.get("curve")
        priced = {**found, "curve": None if curve is None else curves.from_json(curve)}
        return _dataclass(Report, priced, "report")
    except (ValueError, OverflowError) as error:
        raise ReportError(str(error)) from None


T = TypeVar("T")


def _value(wanted: Any, found: Any, where: str) -> Any:
    """`found` as the type `wanted` of a field. Raises ValueError with the place of what does not fit."""
    if isinstance(found, Curve) and wanted == Curve | None:
        return found
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        if found is None and types.NoneType in arguments:
            return None
        (inner,) = (one for one in arguments if one is not types.NoneType)
        return _value(inner, found, where)
    if origin is tuple:
        return tuple(_value(arguments[0], one, f"{where}[{i}]") for i, one in enumerate(_of(list, found, where)))
    if origin in (dict, Mapping):
        return {str(key): _value(arguments[1], one, f"{where}.{key}") for key, one in _of(dict, found, where).items()}
    if is_dataclass(wanted) and isinstance(wanted, type):
        return _dataclass(wanted, _of(dict, found, where), where)
    if wanted is float and type(found) is int:
        return float(found)
    return _of(wanted, found, where)


def _dataclass(wanted: type[T], found: dict[str, Any], where: str) -> T:
    kinds = typing.get_type_hints(wanted)
    values = {}
    for one in fields(wanted):  # type: ignore[arg-type]  # a dataclass type, as the caller saw
        if one.name in found:
            values[one.name] = _value(kinds[one.name], found[one.name], f"{where}.{one.name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{where} has no {one.name}")
    return wanted(**values)


def _of(kind: type, found: Any, where: str) -> Any:
    if type(found) is not kind or (isinstance(found, float) and not math.isfinite(found)):
        names = {dict: "an object", list: "a list", str: "a text", int: "a whole number", float: "a number",
                 bool: "true or false"}  # fmt: skip
        raise ValueError(f"{where} must be {names[kind]}")
    return found
