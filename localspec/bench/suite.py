"""The measurement that `localspec bench` makes: which requests and modes, how long it will take, and the run itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.bench import paired
from localspec.bench.paired import GREEDY, Answerer, Measured, Mode, Plan, Prompting
from localspec.bench.workloads import Task
from localspec.engine.requests import SamplerSettings, Speculate

BYTES_PER_S = 10e9
"""Weights that a plain pass reads a second, where no pass was measured yet: two channels of a laptop's memory, used
well."""

READ_SHARE = 0.15
"""A prompt token read in a wide pass, relative to a plain one: 0.14 to 0.28 on every curve measured."""

CHARS_PER_TOKEN = 3.5
"""English and code, by the vocabularies of today."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Who answers, and whom to tell. `stopped` is asked between answers; `progress` is told answers done, answers in
    all, and what comes next."""

    client: Answerer
    prompting: Prompting
    stopped: Callable[[], bool] = lambda: False
    progress: Callable[[int, int, str], None] = lambda done, total, text: None


def measure(measured: Measured, plan: Plan, setting: Setting) -> None:
    """Make the plan's answers into `measured`, which keeps what is there when it is stopped. Raises the engine's
    errors."""
    names = [f"{task.id}, {mode.name}" for task, _, mode in plan.order()]
    setting.progress(0, len(names), next(iter(names), ""))
    for number, run in enumerate(paired.run(setting.client, plan, setting.prompting, setting.stopped), 1):
        measured.runs.append(run)
        setting.progress(number, len(names), names[number] if number < len(names) else "")


def first_of_each(tasks: Sequence[Task], count: int | None) -> list[Task]:
    """At most `count` tasks of each category (None: all), the categories in the order they first come."""
    names = dict.fromkeys(task.category for task in tasks)
    return [task for name in names for task in [one for one in tasks if one.category == name][:count]]


def modes(ways: Sequence[tuple[Speculate, int | None]], temperatures: Sequence[float]) -> list[Mode]:
    """Plain decoding and the given ways to speculate (with their fixed draft length) at each temperature, the other
    settings of sampling being the usual ones."""
    found = []
    for temperature in temperatures:
        sampling = SamplerSettings(temperature=temperature) if temperature else GREEDY
        after = f", temperature {temperature:g}" if temperature else ""
        found.append(Mode(f"plain{after}", "off", sampling=sampling))
        for speculate, length in ways:
            named = f"{speculate} {length}" if length else speculate
            found.append(Mode(f"{named}{after}", speculate, length, sampling))
    return found


def plain_seconds(target: Path) -> float:
    """A guess at a plain pass, by the file's size, for when none was measured."""
    return target.stat().st_size / BYTES_PER_S


def seconds(plan: Plan, plain_s: float) -> float:
    """About how long the plan takes when a plain pass takes `plain_s` and nothing is gained: every prompt is read once
    for each way to sample, and every answer is as long as it may be."""
    reading = sum(len(task.prompt) / CHARS_PER_TOKEN * READ_SHARE for task in plan.tasks)
    return (plan.answers * plan.max_tokens + reading) * plain_s
