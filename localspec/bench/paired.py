"""Ways to decode, compared fairly: interleaved in one engine, over the same prompts, each against plain decoding.

Machines change their speed from minute to minute, so nothing measured apart is compared. Within a round every mode
answers the same prompt, one right after the other; the prompt is read once, by the first of them. The next round goes
the other way around, so that a drift within a round favours nobody twice. A speed-up is the ratio of two answers of one
round; only ratios are summed up.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from localspec.bench.workloads import Task
from localspec.engine.events import Cycle, Event, Finished, Stats, Token
from localspec.engine.requests import Request, SamplerSettings, Segment, Speculate, Verify
from localspec.engine.rules import rule_for

GREEDY = SamplerSettings(temperature=0.0)

Prompting = Callable[[Sequence[str]], tuple[Segment, ...]]
"""Turns to prompt: the person's and the model's in alternation, the person's last."""


class Answerer(Protocol):
    """What a measurement needs of an engine; `EngineClient` is one."""

    def generate(self, request: Request) -> Iterable[Event]: ...


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to decode. `draft_length` None is automatic; `verify` None is the rule that a person's answer gets."""

    name: str
    speculate: Speculate
    draft_length: int | None = None
    sampling: SamplerSettings = GREEDY
    verify: Verify | None = None


PLAIN = Mode("plain", "off")


@dataclass(frozen=True, slots=True)
class Run:
    """One answer: `round` counts from 0, `stats` are the engine's figures, `tokens` the ids that were emitted."""

    task: Task
    mode: Mode
    round: int
    stats: Stats
    cycles: tuple[Cycle, ...] = ()
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. Modes with `speculate` off are the baselines of those that sample alike. `max_tokens` bounds every
    answer."""

    tasks: Sequence[Task]
    modes: Sequence[Mode]
    rounds: int
    max_tokens: int

    @property
    def answers(self) -> int:
        return len(self.tasks) * len(self.modes) * self.rounds

    def order(self) -> Iterator[tuple[Task, int, Mode]]:
        """Task, round and mode of every answer, in the order they are made."""
        for task in self.tasks:
            for round_ in range(self.rounds):
                for mode in self.modes if round_ % 2 == 0 else reversed(self.modes):
                    yield task, round_, mode


def run(
    engine: Answerer, plan: Plan, prompting: Prompting, stopped: Callable[[], bool] = lambda: False
) -> Iterator[Run]:
    """Make the plan's answers; each comes out when it is complete. Ends early once `stopped()`.

    An answer that was cancelled is no measurement and is left out. Sampled answers of one round share their seed.
    Raises the engine's errors.
    """
    for task, round_, mode in plan.order():
        if stopped():
            return
        request = Request(
            prompt=prompting([task.prompt]),
            sampling=mode.sampling,
            speculate=mode.speculate,
            draft_length=mode.draft_length,
            max_tokens=plan.max_tokens,
            seed=round_,
            # A person asks a prompt once: when the draft model reads it, an answer is the slower for it in every round.
            draft_anew=True,
            verify=mode.verify or _usual_rule(mode),
        )
        cycles: list[Cycle] = []
        tokens: list[int] = []
        finished = last_event(_noting(engine.generate(request), cycles, tokens))
        if finished.reason == "cancelled":
            return
        yield Run(task, mode, round_, finished.stats, tuple(cycles), tuple(tokens))


def _usual_rule(mode: Mode) -> Verify:
    """The rule that a person's answer gets, whose seed is drawn: the seed here is for the comparison alone."""
    drawn = mode.sampling.temperature > 0 and mode.speculate not in ("off", "lookup")
    return rule_for(Request(prompt=(), verify=None), drawn=drawn)


def _noting(events: Iterable[Event], cycles: list[Cycle], tokens: list[int]) -> Iterator[Event]:
    """The events as they come, what a replay of the answer needs kept aside."""
    for event in events:
        if isinstance(event, Cycle):
            cycles.append(event)
        elif isinstance(event, Token):
            tokens.append(event.id)
        yield event


def last_event(events: Iterable[Event]) -> Finished:
    """Reads an answer to its end."""
    finished: Finished | None = None
    for event in events:
        if isinstance(event, Finished):
            finished = event
    assert finished is not None, "an answer without a Finished raises in the client"
    return finished


@dataclass(frozen=True, slots=True)
class Comparison:
    """One mode on one task: `speedups` has one ratio to plain decoding for each complete round, `stats` every answer
    of the mode."""

    task: Task
    mode: Mode
    speedups: tuple[float, ...]
    stats: tuple[Stats, ...]

    @property
    def speedup(self) -> float | None:
        """The median over the rounds; None when no round is complete."""
        return median(self.speedups) if self.speedups else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over judged of all answers."""
        judged = sum(stats.judged for stats in self.stats)
        return sum(stats.accepted for stats in self.stats) / judged if judged else None

    @property
    def tokens_per_cycle(self) -> float | None:
        """Decoded tokens over cycles of all answers; the first token of each comes from the prompt."""
        cycles = sum(stats.cycles for stats in self.stats)
        return sum(max(0, stats.tokens - 1) for stats in self.stats) / cycles if cycles else None


@dataclass(slots=True)
class Measured:
    """The answers so far, in the order they came."""

    runs: list[Run] = field(default_factory=list)

    def of(self, task: Task, mode: Mode) -> list[Run]:
        return [run for run in self.runs if run.task == task and run.mode == mode]

    def comparisons(self, baseline: Mode | None = None) -> list[Comparison]:
        """Every mode but the baselines on every task, in the order they were first run. Without a `baseline` each mode
        is compared with plain decoding under its own sampling."""
        modes = {run.mode.name: run.mode for run in self.runs}
        pairs = dict.fromkeys((run.task, run.mode.name) for run in self.runs)
        found = []
        for task, name in pairs:
            mode = modes[name]
            base = baseline or next((one for one in modes.values() if is_baseline(one, mode)), None)
            if mode != base:
                found.append(self._compare(task, mode, base))
        return found

    def _compare(self, task: Task, mode: Mode, baseline: Mode | None) -> Comparison:
        plain = {run.round: run.stats.tokens_per_s for run in self.of(task, baseline)} if baseline else {}
        runs = self.of(task, mode)
        ratios = []
        for run_ in runs:
            base, speed = plain.get(run_.round), run_.stats.tokens_per_s
            if base and speed:
                ratios.append(speed / base)
        return Comparison(task, mode, tuple(ratios), tuple(run_.stats for run_ in runs))


def is_baseline(one: Mode, of: Mode) -> bool:
    """Whether `one` is plain decoding under the sampling of `of`."""
    return one.speculate == "off" and one.sampling == of.sampling


def overhead_share(runs: Iterable[Run]) -> float | None:
    """Time outside the models' passes over decode time, all answers together; None before anything was decoded."""
    stats = [run_.stats for run_ in runs]
    decode_s = sum(one.decode_s for one in stats)
    return sum(one.overhead_s for one in stats) / decode_s if decode_s else None
