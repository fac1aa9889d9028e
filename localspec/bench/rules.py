"""Measuring the three verification rules beside each other: at the same places of the same texts, and by the clock.

The expectations come from the engine (`localspec/engine/comparing.py`), the wall clock from answers that take turns
(`paired.py`). Sampled answers differ in text from rule to rule, so it takes many of them to tell rules apart by the
clock; the expectations tell them apart at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from localspec.bench import paired, rule_results
from localspec.bench.curves import Pricing
from localspec.bench.paired import Answerer, Measured, Mode, Plan, Prompting
from localspec.bench.rule_results import RULES, Cell, Rules
from localspec.bench.workloads import Task
from localspec.engine.requests import SamplerSettings, Speculate
from localspec.engine.rule_report import RuleJob, RuleRates

TEXTS = (
    Task(
        "code", "code", "Write a Python class for a bank account with deposit, withdraw and transfer, and a few tests."
    ),
    Task("chat", "chat", "I want to learn to bake bread. What do I need, and what goes wrong most often at first?"),
    Task("story", "story", "Tell a short story about a lighthouse keeper who finds a letter in a bottle."),
)
"""How far sampled text can be guessed differs most between these."""

TEMPERATURES = (0.3, 0.7, 1.0)
LENGTHS = (1, 2, 3, 5, 7)
TEXT_TOKENS, STRIDE = 97, 3
"""A cycle is begun at every third of 96 tokens: 32 places a text, each the cheaper for the little to be read anew."""

PLACE = 4.0
"""What a place costs beside its draft, in plain passes: the pass that verifies it, and a few tokens read."""


class Engine(Answerer, Protocol):
    """What this needs of an engine; `EngineClient` is one."""

    def measure(self, job: RuleJob, on_progress: Callable[[float], None] | None = None) -> RuleRates: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured, and how. `sampling` holds the filters; `wall_length` is the draft length by the wall clock,
    `rounds` of at most `max_tokens` there (0: none)."""

    engine: Engine
    prompting: Prompting
    drafter: Speculate
    texts: Sequence[Task] = TEXTS
    temperatures: Sequence[float] = TEMPERATURES
    lengths: Sequence[int] = LENGTHS
    text_tokens: int = TEXT_TOKENS
    stride: int = STRIDE
    wall_length: int = 3
    rounds: int = 2
    max_tokens: int = 48
    sampling: SamplerSettings = field(default_factory=SamplerSettings)

    def sampled(self, temperature: float) -> SamplerSettings:
        return replace(self.sampling, temperature=temperature)

    @property
    def plan(self) -> Plan:
        """Plain decoding and every rule, at every temperature."""
        modes = []
        for temperature in self.temperatures:
            sampling, after = self.sampled(temperature), f"temperature {temperature:g}"
            modes.append(Mode(f"plain, {after}", "off", sampling=sampling))
            modes += [Mode(f"{rule}, {after}", self.drafter, self.wall_length, sampling, verify=rule) for rule in RULES]
        return Plan(self.texts, modes, self.rounds, self.max_tokens)

    @property
    def cells(self) -> int:
        return len(self.texts) * len(self.temperatures)

    def passes(self) -> tuple[float, float]:
        """About how many plain passes it takes: the expectations at one text, an answer by the wall clock."""
        places = self.text_tokens / self.stride
        return self.text_tokens + places * (PLACE + 0.6 * max(self.lengths)), 1.2 * self.max_tokens


@dataclass(slots=True)
class Found:
    """What is measured so far."""

    cells: list[Cell] = field(default_factory=list)
    measured: Measured = field(default_factory=Measured)
    complete: bool = False

    @property
    def known(self) -> list[Cell]:
        """Those with something in them."""
        return [one for one in self.cells if one.rates.places]

    def report(self, setting: Setting, pricing: Pricing | None) -> Rules:
        """The figures of it."""
        known = self.known
        cells = [rule_results.cell(one, max(setting.lengths), pricing) for one in known]
        temperatures = dict.fromkeys(one.temperature for one in known)
        return Rules(
            complete=self.complete,
            top_k=setting.sampling.top_k, top_p=setting.sampling.top_p, min_p=setting.sampling.min_p,
            lengths=tuple(setting.lengths),
            cells=tuple(cells),
            means=tuple(rule_results.mean([one for one in cells if one.temperature == at]) for at in temperatures),
            gains=tuple(
                rule_results.gain(known, rule, length, at)
                for rule in RULES[1:] for at in (*temperatures, None) for length in setting.lengths
            ) if known else (),
            runs=rule_results.runs(self.measured, setting.wall_length),
            times=next((one.rates.costs for one in known if one.rates.costs), ()),
            priced_by=pricing.name if pricing else None,
        )  # fmt: skip


def measure(
    found: Found,
    setting: Setting,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[float, str], None] = lambda fraction, text: None,
) -> None:
    """Measure into `found`, which keeps what is there when it is stopped; `progress` is told the fraction done and what
    comes next. Raises the engine's errors."""
    a_cell, an_answer = setting.passes()
    answers = setting.plan.answers
    total = setting.cells * a_cell + answers * an_answer
    done = 0.0
    for temperature in setting.temperatures:
        for task in setting.texts:
            if stopped():
                return
            name = f"{task.id}, temperature {temperature:g}"
            job = RuleJob(
                setting.prompting([task.prompt]), setting.sampled(temperature), setting.text_tokens, setting.stride,
                max(setting.lengths), seed=1, timed=not any(one.rates.costs for one in found.cells),
            )  # fmt: skip
            begun = done
            rates = setting.engine.measure(
                job,
                lambda part, begun=begun, name=name: progress((begun + part * a_cell) / total, name),  # type: ignore[misc]
            )
            found.cells.append(Cell(task.id, temperature, rates))
            if not rates.complete:
                return
            done += a_cell
    names = [f"{task.id}, {mode.name}" for task, _, mode in setting.plan.order()]
    progress(done / total, names[0] if names else "")
    for number, run in enumerate(paired.run(setting.engine, setting.plan, setting.prompting, stopped), 1):
        found.measured.runs.append(run)
        progress((done + number * an_answer) / total, names[number] if number < answers else "")
    found.complete = len(found.measured.runs) == answers
